"""`make soak`: run the campaign, or a part of it, and print its table."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

from soak.campaign import FAULTS, Campaign


def main(words: list[str]) -> int:
    by_name = {fault.name: fault for fault in FAULTS}
    parser = argparse.ArgumentParser(prog="soak", description="faults under load, and what clients saw, judged")
    parser.add_argument(
        "--minutes", type=float, help="for all faults together; without it, until every goal is reached"
    )
    parser.add_argument("--only", metavar="NAME,...", help=f"only these faults: {', '.join(by_name)}")
    parser.add_argument("--seed", type=int, help="of the first round of each fault; without it, the time")
    parser.add_argument("--short", action="store_true", help="the form of seconds that CI runs")
    parser.add_argument("--folder", type=Path, default=Path("build/soak"), help="where failures are left behind")
    parser.add_argument("--keep", action="store_true", help="leave every round behind, also those without findings")
    options = parser.parse_args(words)
    names = options.only.split(",") if options.only else list(by_name)
    if unknown := [name for name in names if name not in by_name]:
        parser.error(f"there is no fault {unknown[0]!r}; there are {', '.join(by_name)}")
    seed = options.seed if options.seed is not None else int(time.time())
    # So that the processes of a round end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    campaign = Campaign(options.folder.resolve(), seed, options.minutes, is_short=options.short, keeps=options.keep)
    is_well = campaign.run([by_name[name] for name in names])
    print(campaign.table())
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
