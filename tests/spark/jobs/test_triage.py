"""`triage`: dead letters by what they have in common, not one of them touched, and each cluster with its way back."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from pyspark.sql import functions as F  # noqa: N812

from penstock.cli.pipeline.commands import replay as replay_from_the_command_line
from penstock.spark.jobs import Source
from penstock.spark.jobs.clusters import cluster_of, traits
from penstock.spark.jobs.triage import replay_command


def test_clusters(plant, tmp_path: Path) -> None:
    for number in range(3):
        plant.send(
            "q",
            f'{{"order": {number}, "at": 1}}',
            content_type="application/json",
            attributes={"error": f"timeout after {number} ms", "source": "shop", "trace": str(number)},
        )
    plant.send("q", '{"at": 2, "order": "x"}', content_type="application/json", attributes={"error": "no stock"})
    plant.send("q", b"\xff\xfe", "plain", "", "[1]")
    summary = plant.triage(samples=2, to=str(tmp_path / "clusters"))
    assert (summary.messages, summary.found) == (8, 6)
    largest = summary.clusters[0]
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
    assert {cluster["shape"] for cluster in summary.clusters} == {"{at, order}", "binary", "text", "empty", "[…]"}
    written = plant.spark.read.parquet(str(tmp_path / "clusters"))
    assert {row.cluster for row in written.collect()} == {cluster["cluster"] for cluster in summary.clusters}
    count = plant.client.queue("q").count
    assert (count.ready, count.claimed) == (8, 0)
    assert all(message.receives == 0 for message in plant.client.peek("q").messages)


def test_the_command_brings_back_that_cluster_and_nothing_else(plant) -> None:
    """For every cluster in turn: of the command that a shell would run, the filter and the queues."""
    letters = {
        ("{a}", "no such file 'x'"): ['{"a": 1}', '{"a": "it\'s"}'],
        ("{a}", "timeout"): ['{"a": 2}'],
        ("{b}", "timeout"): ['{"b": 2}', '{"b": 3}', '{"b": 4}'],
        ("text", "timeout"): ["a text", "b text"],
        ("binary", "timeout"): [b"\xff"],
    }
    for (_, error), bodies in letters.items():
        plant.send("q", *bodies, attributes={"error": error})
    plant.client.create_queue("home")
    clusters = plant.triage().clusters
    assert len(clusters) == len(letters)
    for cluster in clusters:
        words = shlex.split(cluster["replay"])
        assert words[:5] == ["penstock", "pipeline", "replay", "--queue", "q"]
        asked = dict(zip(words[3:-3:2], words[4:-3:2], strict=True))
        assert (asked["--to"], words[-3:]) == ("QUEUE", ["--yes", "--url", plant.server.url])
        before = set(plant.bodies("q"))
        summary = plant.replay("home", queue=asked["--queue"], where=asked["--where"], yes=True)
        assert summary.sent == cluster["messages"]
        moved = before - set(plant.bodies("q"))
        [wanted] = [bodies for (shape, error), bodies in letters.items()
                    if shape == cluster["shape"] and error[:4] in cluster["error"]]  # fmt: skip
        assert moved == {body if isinstance(body, bytes) else body.encode() for body in wanted}
    assert plant.bodies("q") == []


def test_the_same_cluster_in_the_queue_and_in_the_lake(plant) -> None:
    plant.send("q", '{"a": 1}', '{"a": 22}', "x", attributes={"error": "line 7"})
    [first, _] = plant.triage().clusters
    where = f"cluster = '{first['cluster']}'"
    assert plant.replay(queue="q", where=where).matched == 2
    plant.drain()
    assert plant.replay(lake=plant.root, where=where, yes=True).sent == 2
    assert plant.bodies("other") == [b'{"a": 1}', b'{"a": 22}']


def test_it_goes_back_to_where_it_came_from(plant) -> None:
    plant.client.create_queue("dead")
    redrive = {"max_receives": 1, "dead_letter_queue": "dead"}
    for name in ("one", "two"):
        plant.client.create_queue(name, redrive=redrive)
        plant.send(name, f'{{"{name}": 1}}')
        plant.client.claim(name, 1, 1)
    plant.clock.advance(60)
    for name in ("one", "two"):
        plant.client.claim(name, 1)
    commands = {cluster["shape"]: shlex.split(cluster["replay"]) for cluster in plant.triage("dead").clusters}
    homes = {shape: words[words.index("--to") + 1] for shape, words in commands.items()}
    assert homes == {"{one}": "one", "{two}": "two"}
    plant.client.delete_queue("two")
    plant.send("dead", "by hand")
    commands = {cluster["shape"]: cluster["replay"] for cluster in plant.triage("dead").clusters}
    assert "--to one" in commands["text"]


def test_the_command_is_one_that_there_is() -> None:
    words = shlex.split(replay_command("http://127.0.0.1:8080", "a:b@c", "home", "0f"))
    assert words == [
        "penstock", "pipeline", "replay", "--queue", "a:b@c", "--to", "home", "--where", "cluster = '0f'", "--yes",
    ]  # fmt: skip
    parsed = replay_from_the_command_line.make_context("replay", words[3:])
    assert parsed.params["yes"] is True
    assert Source(queue=parsed.params["queue"], where=parsed.params["where"]).where == "cluster = '0f'"


def test_an_empty_queue_and_a_dry_run(plant, tmp_path: Path) -> None:
    assert plant.triage().clusters == []
    plant.send("q", "a")
    summary = plant.triage(dry_run=True, to=str(tmp_path / "clusters"))
    assert (summary.messages, summary.clusters) == (1, [])
    assert not (tmp_path / "clusters").exists()


def test_only_the_largest_clusters_are_shown(plant) -> None:
    plant.send("q", '{"a":1}', '{"a":2}', '{"b":1}')
    summary = plant.triage(clusters=1, samples=0)
    assert [(it["shape"], it["messages"], it["samples"]) for it in summary.clusters] == [("{a}", 2, [])]
    assert summary.found == 2


@pytest.mark.parametrize(
    ("one", "another", "told"),
    [
        ("timeout after 30 ms", "timeout after 1.5 ms", "timeout after N ms"),
        ("order 0199a8c2-51f4-7abc-9def-00000000002a", "order 0199A8C2-51F4-7ABC-9DEF-00000000002B", "order ID"),
        ("at 0x7ffe12 of deadbeef00", "at 0x1 of 00c0ffee11", "at ID of ID"),
        ('no field \'a\' in "b \\" c"', "no field '' in \"d\"", "no field '…' in \"…\""),
        ("it's at 2024-01-02T03:04:05.6Z", "it's at 2025-11-12 13:14:15", "it's at TIME"),
        ("12:13:14,5 no /var/lib/a.db", "12:13:15 no /home/x/y", "TIME no PATH"),
        ("C:\\a\\b.txt is open", "D:\\x\\y\\z is open", "PATH is open"),
        ("GET https://a.b/c?d=1 failed", "GET https://e/f failed", "GET URL failed"),
    ],
)
def test_errors_of_a_kind(spark, one: str, another: str, told: str) -> None:
    rows = [("{}", None, {"error": text}) for text in (one, another, f"{one} indeed")]
    frame = spark.createDataFrame(rows, "body string, content_type string, attributes map<string,string>")
    text = F.col("body")
    found = frame.select(traits(text)["error"].alias("error"), cluster_of(text).alias("cluster")).collect()
    assert [row.error for row in found] == [f"error={told}", f"error={told}", f"error={told} indeed"]
    assert found[0].cluster == found[1].cluster != found[2].cluster


def test_errors_in_the_body(spark) -> None:
    """A field that is there twice harms nothing, and what a trait holds cannot pass for another."""
    bodies = ['{"id": 1, "error": "line 7"}', '{"id": 2, "error": "line 8"}', '{"error": "a", "error": "b"}', "x", "[1"]
    rows = [(body, None, {}) for body in bodies] + [(None, None, None)]
    frame = spark.createDataFrame(rows, "body string, content_type string, attributes map<string,string>")
    text = F.col("body")
    found = frame.select(traits(text)["error"].alias("error"), cluster_of(text).alias("cluster")).collect()
    assert [row.error for row in found][:2] == ["error=line N"] * 2
    assert [row.error for row in found][3:] == [""] * 3
    assert len({row.cluster for row in found[:4]}) == 3
    assert all(len(row.cluster) == 16 for row in found)
