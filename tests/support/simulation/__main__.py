"""The simulator's command."""

import argparse
import sys
import time

from tests.support.simulation.runs import run_many


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.simulation",
        description="Simulate the loop with faults until so many joins and steps are made, or an invariant is violated.",
    )
    parser.add_argument("--joins", type=int, default=20_000, help="default: %(default)s")
    parser.add_argument("--steps", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--processes", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default: %(default)s)")
    options = parser.parse_args()
    started_at = time.monotonic()
    total, violation = run_many(
        joins=options.joins,
        steps=options.steps,
        processes=options.processes,
        first_seed=options.seed,
    )
    print(f"{total}\n{time.monotonic() - started_at:>14,.0f}  seconds")
    if violation is not None:
        print(f"VIOLATION: {violation}", file=sys.stderr)
        return 1
    print("no violation")
    return 0


if __name__ == "__main__":
    sys.exit(main())
