"""What steps do: a function of their ids alone, so that a resumed step does the same."""

from functools import lru_cache
from typing import Final, NamedTuple

from tests.support.simulation.graph import ENTITIES, VARIANTS, Conclusion, Fact
from tests.support.simulation.rows import ADVISE, INSIGHT, OBSERVE, QUERY, mix

POISONED: Final = 40
"""One of so many query steps writes a value that the schema refuses."""
VALUES: Final = 1000


class Round(NamedTuple):
    """Calls that are sent at once, and what their answers write."""

    requests: tuple[int, ...]
    facts: tuple[Fact | Conclusion, ...] = ()
    is_poison: bool = False


@lru_cache(maxsize=4096)
def rounds(step_id: int) -> tuple[Round, ...]:
    kind = (step_id // 8) % 4
    requests = [step_id * 8 + i for i in range(8)]
    if kind == QUERY:
        is_poison = mix(step_id, 2) % POISONED == 0
        return (
            Round((requests[0],)),
            Round((requests[1], requests[2])),
            Round((requests[3],), _facts(requests[3]), is_poison),
        )
    if kind == INSIGHT:
        return (Round((requests[0],), (Conclusion(requests[0]),)),)
    assert kind in (OBSERVE, ADVISE)
    return (Round((requests[0],)),)


def plan(iteration: int) -> tuple[int, int]:
    """The numbers of queries and insights."""
    return 1 + mix(iteration, 3) % 3, 1 + mix(iteration, 4) % 2


def _facts(request: int) -> tuple[Fact, ...]:
    return tuple(_fact(request, index) for index in range(2))


def _fact(request: int, index: int) -> Fact:
    number = mix(request, index, 5)
    return Fact(
        entity=number % ENTITIES,
        variant=(number >> 8) % VARIANTS,
        evidence_id=request * 8 + index,
        as_of=(number >> 16) % 50,
        value=(number >> 32) % VALUES,
    )
