"""Load from `wrk`: written in C, so that the generator is not what is measured."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

_SCRIPTS = Path(__file__).parent / "wrk"
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True)
class Load:
    requests: int
    per_second: float
    median_s: float
    errors: int
    output: str


def wrk(url: str, connections: int, seconds: float, script: str | None = None, *words: str) -> Load:
    """`script` is a file of `bench/wrk`, without its ending; the words are for it."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}", "--latency"]
    if script:
        command += ["-s", script_path(script)]
    output = subprocess.run([*command, url, "--", *words], capture_output=True, text=True, check=True).stdout
    return read(output)


def script_path(name: str) -> str:
    return str(_SCRIPTS / f"{name}.lua")


def read(output: str) -> Load:
    """What `wrk --latency` prints."""
    requests = int(re.search(r"(\d+) requests in ", output)[1])
    per_second = float(re.search(r"Requests/sec:\s+([\d.]+)", output)[1])
    value, unit = re.search(r"50%\s+([\d.]+)(us|ms|s)", output).groups()
    failed = re.search(r"Non-2xx or 3xx responses: (\d+)", output)
    return Load(requests, per_second, float(value) * _UNITS[unit], int(failed[1]) if failed else 0, output)
