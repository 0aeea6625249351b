"""`make bench`: run the measures and print them as a table, or as JSON with `BENCH_ARGS=--json`."""

from __future__ import annotations

import argparse
import sys

from bench import databases, emodb, foundation, gq, mqcore, pipeline, vsqs
from bench.measure import as_json, table
from bench.servers import is_installed

MEASURES = {
    **foundation.MEASURES,
    **vsqs.MEASURES,
    **emodb.MEASURES,
    **mqcore.MEASURES,
    **databases.MEASURES,
    **gq.MEASURES,
    **pipeline.MEASURES,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--seconds", type=float, default=5, help="how long each load runs")
    parser.add_argument("--only", choices=sorted(MEASURES), action="append", help="run only these measures")
    options = parser.parse_args()
    if not is_installed("wrk"):
        print("the load generator wrk is not installed (Debian: apt-get install wrk)", file=sys.stderr)
        return 1
    results = []
    for name in options.only or MEASURES:
        for result in MEASURES[name](options.seconds):
            results.append(result)
            if not options.json:
                print(table([result]).splitlines()[-1], file=sys.stderr, flush=True)
    print(as_json(results) if options.json else table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
