"""A file to its place: a local path, or any that Hadoop knows. In one step: a reader sees the old page or the
new one."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from penstock.spark.errors import JobFailed
from penstock.spark.tasks import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def publish(spark: SparkSession, page: bytes, to: str) -> None:
    local = local_path(to)
    if local is not None:
        _write_locally(page, local)
    elif is_connect(spark):
        raise JobFailed(f"a Spark Connect session cannot write a single file to {to}: choose a local file")
    else:
        write_by_hadoop(spark, page, to)


def local_path(to: str) -> Path | None:
    """None where it takes Hadoop to get there."""
    parts = urlsplit(to)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if "://" in to else Path(to)


def _write_locally(page: bytes, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as temporary:
        try:
            temporary.write(page)
            temporary.flush()
            os.fsync(temporary.fileno())
            # A temporary file is for its owner only; a page is as open as any other new file.
            os.chmod(temporary.name, 0o666 & ~_umask())
            os.replace(temporary.name, path)
        except BaseException:
            os.unlink(temporary.name)
            raise


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def write_by_hadoop(spark: SparkSession, page: bytes, to: str) -> None:
    jvm: Any = spark._jvm
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    target = jvm.org.apache.hadoop.fs.Path(to)
    temporary = jvm.org.apache.hadoop.fs.Path(target.getParent(), f".{target.getName()}.{uuid4().hex}")
    system = target.getFileSystem(configuration)
    # A local file system would leave a file of checksums beside the page.
    system.setWriteChecksum(False)
    try:
        stream = system.create(temporary, True)
        stream.write(page)
        stream.close()
        # Of Hadoop's two interfaces only this one replaces a file in one step.
        renames = jvm.org.apache.hadoop.fs.Options.Rename
        options = jvm.java.lang.reflect.Array.newInstance(renames.OVERWRITE.getClass(), 1)
        options[0] = renames.OVERWRITE
        qualified = system.makeQualified(target)
        context = jvm.org.apache.hadoop.fs.FileContext.getFileContext(qualified.toUri(), configuration)
        context.rename(system.makeQualified(temporary), qualified, options)
    finally:
        system.delete(temporary, False)
