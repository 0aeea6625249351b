"""`python -m soak.fuzz NAME --cases 1000000`: run a target until its first finding; without a name, all of them.

With `--guided`, atheris chooses the inputs by the coverage of the source, and those that reach something new are kept
in the folder `--kept` for the next time. Without, they are mutations of the corpus, and the same seed makes the same
ones. A finding is left in the folder `--found`, and run again by `python -m soak.fuzz NAME --replay FILE`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m soak.fuzz", description=__doc__)
    parser.add_argument("target", nargs="?")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--guided", action="store_true", help="by coverage, with atheris")
    parser.add_argument("--found", type=Path, default=Path("build/fuzz/found"), help="where findings are left")
    parser.add_argument("--kept", type=Path, default=Path("build/fuzz/kept"), help="inputs for the next time")
    parser.add_argument("--replay", type=Path, help="run one input")
    arguments = parser.parse_args()
    arguments.found.mkdir(parents=True, exist_ok=True)
    if arguments.target is None:
        run_all(sys.argv[1:])
    elif arguments.guided and arguments.replay is None:
        run_guided(arguments)
    else:
        run_plain(arguments)


def run_all(options: list[str]) -> None:
    """Each in a process of its own, which a finding ends."""
    from soak.fuzz.targets import TARGETS

    failed = [
        name
        for name in TARGETS
        if subprocess.run([sys.executable, "-m", "soak.fuzz", name, *options], check=False).returncode
    ]
    if failed:
        sys.exit(f"findings in {', '.join(failed)}")


def run_plain(arguments: argparse.Namespace) -> None:
    from soak.fuzz.house import keep_quiet
    from soak.fuzz.run import run
    from soak.fuzz.targets import TARGETS

    keep_quiet()
    target = TARGETS[arguments.target]
    if arguments.replay is not None:
        target.run(arguments.replay.read_bytes())
        print("nothing was found")
        return
    began = time.monotonic()
    done = run(target, arguments.cases, arguments.seed, began + arguments.seconds, arguments.found)
    print(f"{target.name}: {done.cases} cases in {time.monotonic() - began:.0f} s, {done.grown_mib} MiB more")
    if done.finding:
        sys.exit(done.finding)


def run_guided(arguments: argparse.Namespace) -> None:
    """Does not return: the library ends the process."""
    import atheris

    with atheris.instrument_imports(include=["penstock"]):
        from soak.fuzz.targets import TARGETS
    from soak.fuzz.house import keep_quiet
    from soak.fuzz.run import HANG_S, MORE_MIB, resident_mib

    keep_quiet()
    target = TARGETS[arguments.target]
    kept = arguments.kept / target.name
    kept.mkdir(parents=True, exist_ok=True)
    words = arguments.kept / f"{target.name}.words"
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words))
    options = [
        *(f"-runs={arguments.cases}", f"-seed={arguments.seed}", f"-max_len={target.longest}", f"-dict={words}"),
        *(f"-timeout={HANG_S}", f"-rss_limit_mb={resident_mib() + MORE_MIB}", "-print_final_stats=1"),
        f"-artifact_prefix={arguments.found}/{target.name}-",
    ]
    if arguments.seconds != float("inf"):
        options.append(f"-max_total_time={int(arguments.seconds)}")
    atheris.Setup([sys.argv[0], *options, str(kept), str(target.corpus)], target.run)
    atheris.Fuzz()


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


if __name__ == "__main__":
    main()
