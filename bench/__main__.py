"""`make bench`: run the measures and print them as a table, or as JSON with `BENCH_ARGS=--json`.

`python -m bench` exits with 1 when a target is missed, and names it, and with 2 when it could not begin; make itself
exits with 2 for either. `BENCH_ARGS="--only peers --svg docs/figures.svg"` draws the peers. `BENCH_ARGS=--quick` takes
a few minutes: single, shorter rounds over a tenth of the messages, without what takes longest to start or to fill.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from bench import (
    audit,
    before,
    beside,
    console,
    databases,
    drains,
    emodb,
    foundation,
    gq,
    memory,
    metrics,
    mqcore,
    pipeline,
    redis,
    sqs,
    stages,
    stalls,
    vsqs,
    workers,
)
from bench.measure import Effort, Result, as_json, missed, table
from bench.occasion import Occasion
from bench.picture import keep
from bench.servers import is_installed

Measure = Callable[[Effort], Iterator[Result]]

MEASURES: dict[str, Measure] = {
    **foundation.MEASURES,
    **redis.MEASURES,
    **beside.MEASURES,
    **stages.MEASURES,
    **memory.MEASURES,
    **stalls.MEASURES,
    **vsqs.MEASURES,
    **emodb.MEASURES,
    **mqcore.MEASURES,
    **databases.MEASURES,
    **gq.MEASURES,
    **pipeline.MEASURES,
    **drains.MEASURES,
    **audit.MEASURES,
    **workers.MEASURES,
    **sqs.MEASURES,
    **metrics.MEASURES,
    **console.MEASURES,
    **before.MEASURES,
}


# Unless they are asked for by name.
NOT_QUICK = ("audit", "peers", "peers-depth", "pipeline", "drains", "drain-depth", "stalls")
QUICK_SECONDS = 1.0


def main(
    words: Sequence[str], measures: Mapping[str, Measure] = MEASURES, has: Callable[[str], bool] = is_installed
) -> int:
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--seconds", type=float, help="how long each load runs (default: 5, or 1 with --quick)")
    parser.add_argument(
        "--quick", action="store_true", help=f"rough figures in a few minutes, without {', '.join(NOT_QUICK)}"
    )
    parser.add_argument(
        "--svg",
        type=Path,
        metavar="FILE",
        help="draw the peers of this run, and keep their figures beside the picture, as .json",
    )
    parser.add_argument(
        "--before", default="", metavar="COMMIT", help="an older commit, which the measure of that name compares with"
    )
    parser.add_argument("--only", choices=sorted(measures), action="append", help="run only these measures")
    options = parser.parse_args(words)
    if not has("wrk"):
        print("the load generator wrk is not installed (Debian: apt-get install wrk)", file=sys.stderr)
        return 2
    seconds = options.seconds or (QUICK_SECONDS if options.quick else Effort.seconds)
    effort = Effort(seconds, options.quick, options.before)
    results = []
    for name in options.only or (name for name in measures if not (options.quick and name in NOT_QUICK)):
        for result in measures[name](effort):
            results.append(result)
            if not options.json:
                print(table([result]).splitlines()[-1], file=sys.stderr, flush=True)
    occasion = Occasion.now()
    print(as_json(results) if options.json else f"{occasion}\n\n{table(results)}")
    if options.svg:
        keep(options.svg, occasion, results)
    misses = missed(results)
    for line in misses:
        print(line, file=sys.stderr)
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
