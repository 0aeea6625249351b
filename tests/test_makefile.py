"""`make` on a machine whose Python is too old, and after a try that has left half an environment behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.lacking import not_installed

OLD = f"""#!/bin/sh
if [ "$1" = -m ]; then mkdir -p "$3$4"; exit 0; fi
program="import sys; sys.version_info = (3, 9, 18); sys.version = '3.9.18 (main)'; exec(sys.argv[1])"
exec {sys.executable} -c "$program" "$2"
"""
# The environment is a real one; what would be fetched for it from the network is not.
WITHOUT_NETWORK = f"""#!/bin/sh
{sys.executable} "$@" || exit
for folder; do :; done
if [ "$1" = -m ]; then printf '#!/bin/sh\\n' > "$folder/bin/pip"; fi
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    if shutil.which("make") is None:
        not_installed("make")
    folder = tmp_path / "checkout"
    (folder / "requirements").mkdir(parents=True)
    (folder / "devtools").mkdir()
    (folder / "src" / "penstock").mkdir(parents=True)
    (folder / "src" / "penstock" / "pending.py").touch()
    environments = ("server", "build", "dev", "spark", "clients", "clients-query")
    requirements = (f"requirements/{name}.txt" for name in environments)
    for file in ("Makefile", "pyproject.toml", "setup.py", "devtools/build_package.sh", *requirements):
        shutil.copy(ROOT / file, folder / file)
    return folder


def program(folder: Path, text: str) -> Path:
    path = folder / "python3"
    path.write_text(text)
    path.chmod(0o755)
    return path


def make(checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(["make", *words], cwd=checkout, env=environ, capture_output=True, text=True)


@pytest.mark.parametrize("target", ["run", "test", "spark"])
def test_an_old_python_is_refused_before_anything_is_made(checkout, tmp_path, target):
    old = program(tmp_path, OLD)
    done = make(checkout, target, f"PYTHON={old}")
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"Penstock needs Python 3.11 or later, and {old} is 3.9.18; name another: make {target} PYTHON="
    )
    assert sorted(path.name for path in checkout.iterdir()) == sorted(
        ["Makefile", "devtools", "pyproject.toml", "requirements", "setup.py", "src"]
    )


def test_no_python_is_refused_too(checkout):
    done = make(checkout, "run", "PYTHON=python3.99")
    assert done.returncode == 2
    assert done.stderr.startswith("Penstock needs Python 3.11 or later, and there is no python3.99 here; name one: ")


def test_what_an_earlier_try_has_left_does_not_survive(checkout, tmp_path):
    left = checkout / ".venv" / "bin"
    left.mkdir(parents=True)
    (left / "python").symlink_to("/nonexistent/python3.9")
    (left / "python3").symlink_to("python")
    (left / "pip").write_text("#!/nonexistent/python3.9\n")
    done = make(checkout, "setup", f"PYTHON={program(tmp_path, WITHOUT_NETWORK)}")
    assert (done.returncode, done.stderr) == (0, "")
    version = subprocess.run([left / "python", "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True)
    assert version.stdout.decode().split() == [str(part) for part in sys.version_info[:2]]
    assert (checkout / ".venv" / ".ready").exists()


def test_what_has_not_changed_is_not_compiled_again(checkout, tmp_path):
    words = ("setup", f"PYTHON={program(tmp_path, WITHOUT_NETWORK)}")
    assert "compiling" in make(checkout, *words).stdout
    assert make(checkout, *words).stdout == "make: Nothing to be done for 'setup'.\n"
    changed = checkout / "src" / "penstock" / "pending.py"
    after = (checkout / ".venv" / ".ready").stat().st_mtime + 1
    os.utime(changed, (after, after))
    assert "compiling" in make(checkout, *words).stdout
