"""An hourly audit: what it takes for a million new messages, alone in their lake, and beside a hundred times as many
that an earlier audit has seen.

The new ones are drained from a server. The old ones are written as a drain would have, files with ids of their own and
manifests, and put down as seen. `--seconds` scales both: the usual five stand for a million.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench import servers
from bench.drains import QUEUE, USUAL_SECONDS, filled
from bench.measure import Effort, Result, at_most
from penstock.ids import before_seq
from penstock.spark.jobs import AuditSummary, Run, Server, audit, drain
from penstock.spark.jobs.seen import Seen, SeenManifest, keep
from penstock.spark.lake import Lake
from penstock.spark.manifest import LakeFile, Manifest, Place
from penstock.spark.session import open_session

NEW = 1_000_000
TIMES_OLDER = 100
SHIPMENT = 1_000_000
ROUNDS = 3
_DAY_MS = 24 * 60 * 60 * 1000
_DIGITS = pa.array([f"{number:04x}" for number in range(2**16)])


def audits(effort: Effort) -> Iterator[Result]:
    new = max(10_000, int(NEW * effort.seconds / USUAL_SECONDS))
    spark = open_session("bench")
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name, filled(Path(name), new) as store:
            yield _beside_old(spark, store, new, effort.rounds(ROUNDS))
    finally:
        spark.stop()


def _beside_old(spark: Any, store: Path, new: int, rounds: int) -> Result:
    """In turn, on two lakes with the same new messages; the first turn, in which Java is cold, does not count."""
    old = new * TIMES_OLDER
    with servers.penstock(store) as (url, _process):
        server, small, large = Server(url), Lake(spark, str(store / "small")), Lake(spark, str(store / "large"))
        drain(server, QUEUE, small.address, limit=max(1, new // 2), run=Run(spark))
        shutil.copytree(small.address, large.address)
        earliest = min(place.claimed_at for place in small.shipped(QUEUE))
        seen = _write_old(store / "large", earliest - _DAY_MS, old, min(SHIPMENT, new))
        alone, beside = [], []
        for _ in range(rounds + 1):
            alone.append(_audited(spark, server, small, [], new))
            beside.append(_audited(spark, server, large, seen, new))
        alone, beside = alone[1:], beside[1:]
    if beside[0].messages != new + old:
        raise RuntimeError(f"the lake holds {beside[0].messages} messages")
    return at_most(
        f"`audit` of {new:,} new messages beside {old:,} old ones ÷ alone",
        1.5,
        min(it.seconds for it in beside) / min(it.seconds for it in alone),
        beside_s=min(it.seconds for it in beside),
        alone_s=min(it.seconds for it in alone),
        old_files=len(seen),
        rows_compared=beside[0].compared,
    )


def _audited(spark: Any, server: Server, lake: Lake, seen: list[SeenManifest], new: int) -> AuditSummary:
    """As if the last audit had seen these only."""
    keep(lake, server.url, Seen(manifests=seen))
    summary = audit(server, lake.address, run=Run(spark))
    if summary.findings or summary.new_messages != new:
        raise RuntimeError(f"{summary.new_messages} of {new} were new, and {summary.findings}")
    return summary


def _write_old(lake: Path, before: int, rows: int, per_file: int) -> list[SeenManifest]:
    """Shipments of a queue that is no longer there, sent by the millisecond up to an instant."""
    seen = []
    for number, start in enumerate(range(0, rows, per_file), 1):
        count = min(per_file, rows - start)
        sent_at = before - (rows - start) // 100
        place = Place("drain", number, sent_at, "old")
        ids = _ids(before_seq("7abc-9def", sent_at), start + 1, count)
        file = lake / place.file
        file.parent.mkdir(parents=True)
        claimed_at = pa.repeat(pa.scalar(sent_at * 1000, pa.int64()).cast(pa.timestamp("us", "UTC")), count)
        pq.write_table(
            pa.table({"id": ids, "claimed_at": claimed_at}), file, compression="zstd", use_dictionary=["claimed_at"]
        )
        data = file.read_bytes()
        whole = LakeFile(
            place.file, count, len(data), hashlib.sha256(data).hexdigest(), ids[0].as_py(), ids[-1].as_py()
        )
        manifest = Manifest(place.consumer, place.number, place.claimed_at, count, (whole,), place.queue)
        encoded = msgspec.json.encode(manifest)
        target = lake / place.manifest
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(encoded)
        seen.append(SeenManifest(len(encoded), manifest))
    return seen


def _ids(prefix: str, first: int, count: int) -> pa.Array:
    """Whole columns at a time: a hundred million take a minute."""
    numbers = pa.array(range(first, first + count), pa.int64())
    low = pc.bit_wise_and(numbers, 0xFFFF)
    high = pc.shift_right(numbers, 16)
    return pc.binary_join_element_wise(f"{prefix}0000", pc.take(_DIGITS, high), pc.take(_DIGITS, low), "")


MEASURES = {"audit": audits}
