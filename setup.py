"""Builds the wheel: all else about it is in `pyproject.toml`.

With `PENSTOCK_COMPILE=yes`, the modules that every request passes through are compiled by mypyc, from the same source;
otherwise the wheel is plain Python and fits every machine. `make setup` and `make dist` use
`devtools/build_package.sh`, which falls back on the second where the first cannot be done.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup

SOURCE = Path("src")
BUILD = os.environ.get("PENSTOCK_BUILD", "build")

# Modules that are compiled together call each other directly. There are two parts so that two cores can compile them.
ABOVE_THE_STORE = (
    "pending",
    "clock",
    "ids",
    "policy",
    "sigv4",
    "edge/connection",
    "edge/connections",
    "edge/head",
    "edge/header_blocks",
    "edge/http",
    "edge/lately",
    "edge/limits",
    "edge/router",
    "bridge/desk",
    "bridge/edge_end",
    "bridge/frames",
    "bridge/remote",
    "broker/arrivals",
    "broker/broker",
    "broker/commit",
    "broker/counting",
    "broker/express",
    "broker/lanes",
    "broker/operations",
    "broker/pace",
    "broker/polls",
    "faces/callers",
    "faces/guard",
    "faces/patience",
    "faces/permission",
    "faces/signatures",
    "faces/mqs/messages",
    "faces/mqs/multipart",
    "faces/mqs/trace",
    "faces/emodb/messages",
)
STORE = (
    "stores/figures",
    "stores/sql/attempts",
    "stores/sql/budget",
    "stores/sql/claim",
    "stores/sql/consumers",
    "stores/sql/counts",
    "stores/sql/hints",
    "stores/sql/lines",
    "stores/sql/messages",
    "stores/sql/moves",
    "stores/sql/receipts",
    "stores/sql/runs",
    "stores/sql/send",
    "stores/sql/session",
    "stores/sql/shipments",
    "stores/sql/twins",
    "stores/sql/unit",
    "stores/sql/engines/mariadb",
    "stores/sql/engines/network",
    "stores/sql/engines/postgresql",
    "stores/sql/engines/postgresql_pipeline",
    "stores/sql/engines/postgresql_sender",
    "stores/sql/engines/sqlite",
)


def files(names: tuple[str, ...]) -> list[str]:
    return [str(SOURCE / "penstock" / f"{name}.py") for name in names]


def compiler() -> str | None:
    names = (os.environ.get("CC"), sysconfig.get_config_var("CC"), "cc", "gcc", "clang")
    return next((name for name in names if name and shutil.which(name.split()[0])), None)


def has_headers() -> bool:
    return Path(sysconfig.get_path("include"), "Python.h").exists()


def extensions() -> list[Extension]:
    if os.environ.get("PENSTOCK_COMPILE") != "yes" or "bdist_wheel" not in sys.argv:
        return []
    found = compiler()
    if found is None:
        sys.exit("cannot be compiled: there is no C compiler here")
    if not has_headers():
        sys.exit("cannot be compiled: this Python has no Python.h (Debian: python3-dev)")
    if importlib.util.find_spec("mypyc") is None:
        sys.exit("cannot be compiled: mypyc, a part of mypy, is not installed")
    os.environ["CC"] = found
    os.environ["MYPYPATH"] = str(SOURCE)
    from mypyc.build import mypycify

    above, store = files(ABOVE_THE_STORE), files(STORE)
    # What `make check` complains about is not looked for again.
    options = ["--no-warn-unused-ignores", "--no-warn-unreachable", "--ignore-missing-imports"]
    python = os.environ.get("PENSTOCK_PYTHON")
    if python:
        options.append(f"--python-executable={python}")
    made = mypycify(
        [*options, *above, *store],
        opt_level="1",
        debug_level="0",
        separate=[(above, "penstock_above"), (store, "penstock_store")],
        target_dir=f"{BUILD}/c",
    )
    for extension in made:
        # A warning of a compiler that mypyc does not know yet must not stop anybody.
        extension.extra_compile_args = [flag for flag in extension.extra_compile_args if flag != "-Werror"]
    return made


if __name__ == "__main__":
    # Setuptools puts into a wheel whatever an earlier build has left behind, so each has a folder of its own.
    Path(BUILD).mkdir(parents=True, exist_ok=True)
    setup(
        ext_modules=extensions(),
        options={
            "egg_info": {"egg_base": BUILD},
            "build": {"build_base": f"{BUILD}/made"},
            "build_ext": {"parallel": os.cpu_count() or 1},
        },
    )
