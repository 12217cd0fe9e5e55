"""Which links of a chain hold, decided from what rests on what."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from uuid import UUID


def not_holding(rests_on: Mapping[UUID, Iterable[UUID]], faulty: Iterable[UUID]) -> set[UUID]:
    """The faulty ones, and all that rest on them, directly or not; circles are allowed."""
    carried_by = defaultdict(list)
    for upper, lower_ones in rests_on.items():
        for lower in lower_ones:
            carried_by[lower].append(upper)
    found, waiting = set[UUID](), list(faulty)
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += carried_by[each]
    return found
