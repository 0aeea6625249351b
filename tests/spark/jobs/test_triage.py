"""`triage`: dead letters by what they have in common, and not one of them touched."""

from __future__ import annotations

from pathlib import Path


def test_groups(plant, tmp_path: Path) -> None:
    for number in range(3):
        plant.send(
            "q",
            f'{{"order": {number}, "at": 1}}',
            content_type="application/json",
            attributes={"error": f"timeout after {number} ms", "source": "shop", "trace": str(number)},
        )
    plant.send("q", '{"at": 2, "order": "x"}', content_type="application/json", attributes={"error": "no stock"})
    plant.send("q", b"\xff\xfe", "plain", "", "[1]")
    summary = plant.triage(samples=2, to=str(tmp_path / "groups"))
    assert (summary.messages, summary.found) == (8, 6)
    largest = summary.groups[0]
    assert (largest["shape"], largest["error"], largest["source"]) == (
        "{at, order}",
        "error=timeout after N ms",
        "source=shop",
    )
    assert (largest["messages"], [sample["text"] for sample in largest["samples"]]) == (
        3,
        ['{"order": 0, "at": 1}', '{"order": 1, "at": 1}'],
    )
    assert largest["oldest_at"] <= largest["newest_at"]
    assert {group["shape"] for group in summary.groups} == {"{at, order}", "binary", "text", "empty", "[…]"}
    assert plant.spark.read.parquet(str(tmp_path / "groups")).count() == 6
    count = plant.client.queue("q").count
    assert (count.ready, count.claimed) == (8, 0)
    assert all(message.receives == 0 for message in plant.client.peek("q").messages)


def test_an_empty_queue_and_a_dry_run(plant, tmp_path: Path) -> None:
    assert plant.triage().groups == []
    plant.send("q", "a")
    summary = plant.triage(dry_run=True, to=str(tmp_path / "groups"))
    assert (summary.messages, summary.groups) == (1, [])
    assert not (tmp_path / "groups").exists()


def test_only_the_largest_groups_are_shown(plant) -> None:
    plant.send("q", '{"a":1}', '{"a":2}', '{"b":1}')
    summary = plant.triage(groups=1, samples=0)
    assert [(group["shape"], group["messages"], group["samples"]) for group in summary.groups] == [("{a}", 2, [])]
    assert summary.found == 2
