"""Files of a lake that no job has written, for tests and benchmarks: each with its manifest, as the jobs go by it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.spark.manifest import LakeFile, Manifest, Place


def put(lake: Path, place: Place, rows: pa.Table) -> Path:
    """The rows as the one file of this place."""
    file = lake / place.file
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    whole = LakeFile(place.file, rows.num_rows, file.stat().st_size, digest)
    manifest = Manifest(place.consumer, place.number, place.claimed_at, rows.num_rows, (whole,), place.queue)
    told = lake / place.manifest
    told.parent.mkdir(parents=True, exist_ok=True)
    told.write_bytes(msgspec.json.encode(manifest))
    return file
