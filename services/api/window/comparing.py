"""One of two iterations that are seen beside each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from services.api.access import AgentAccess
from shared.store.reading import superseded
from shared.store.reading.iteration_shapes import IterationOutline, Superseded, Written
from shared.store.words import ADVICE_TYPE, ANALYSIS_TYPE

MOST_SUPERSEDED: Final = 20
"""Of nodes and of edges each."""
_CONCLUSIONS: Final = (ANALYSIS_TYPE, ADVICE_TYPE)


@dataclass(frozen=True)
class Side:
    iteration: IterationOutline
    conclusions: Sequence[Written]
    nodes: Sequence[Written]
    edges: Sequence[Written]
    superseded: Sequence[Superseded]


async def compared(access: AgentAccess, iteration: IterationOutline) -> Side:
    written = iteration.written
    nodes = [each for each in written if each.kind == "node"]
    return Side(
        iteration=iteration,
        conclusions=[each for each in nodes if each.type in _CONCLUSIONS],
        nodes=[each for each in nodes if each.type not in _CONCLUSIONS],
        edges=[each for each in written if each.kind == "edge"],
        superseded=await superseded.in_iteration(
            access.session,
            access.owner_id,
            access.agent.id,
            iteration.id,
            most=MOST_SUPERSEDED,
        ),
    )
