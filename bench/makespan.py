"""`python -m bench.makespan`: the time of an iteration of 20 queries with 1, 2 and 4 researchers, and the ideal.

Each call to the sandbox takes a second, a query five calls, one after another; a researcher works on one query at a
time. The ideal is the Observer's call and then the queries, as many at a time as there are researchers. Exit code 1
where four researchers take more than 15 % longer than that.
"""

import sys
from math import ceil
from typing import Final

from tests.support.cluster.stack import Stack
from tests.support.cluster.watch import Watch

QUERIES: Final = 20
CALL_SECONDS: Final = 1.0
CALLS_PER_QUERY: Final = 5
REPLICAS: Final = (1, 2, 4)
MAX_EXCESS: Final = 0.15


def main() -> int:
    stack = Stack(environment={"VIGIL_CONCURRENCY": "1"})
    try:
        stack.build()
        stack.up()
        print(f"{'researchers':>11}  {'ideal s':>8}  {'measured s':>10}  {'excess':>7}", flush=True)
        excesses = [_measure(stack, replicas) for replicas in REPLICAS]
    finally:
        stack.remove()
    return int(excesses[-1] > MAX_EXCESS)


def _measure(stack: Stack, replicas: int) -> float:
    """Measure and print a row; return the share by which the time exceeds the ideal."""
    stack.up(f"researcher={replicas}")
    ideal = CALL_SECONDS * (1 + CALLS_PER_QUERY * ceil(QUERIES / replicas))
    measured = _makespan(stack)
    excess = measured / ideal - 1
    print(f"{replicas:>11}  {ideal:>8.1f}  {measured:>10.1f}  {excess:>7.1%}", flush=True)
    return excess


def _makespan(stack: Stack) -> float:
    """Seconds from the start of an iteration to its end, by the database's clock."""
    stack.sandbox.reset()
    watch = Watch(stack)
    watch.plan(queries=QUERIES)
    watch.five_calls_a_query()
    watch.slow(CALL_SECONDS)
    watch.start()
    iteration = watch.ended_whole(1, queries=QUERIES)
    assert iteration.ended_at is not None
    return (iteration.ended_at - iteration.started_at).total_seconds()


if __name__ == "__main__":
    sys.exit(main())
