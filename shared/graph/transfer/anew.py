"""Rows of one agent as those of another: ids derived anew, and sealed anew. Decided without a database."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from shared.graph.citations import Citation, replaced
from shared.graph.proof.rows import EdgeRow, EvidenceRow, NodeRow, SourceRow
from shared.store import ids

NewIds = Mapping[UUID, UUID]
"""New ids by old ones."""


def source(agent_id: UUID, row: SourceRow) -> SourceRow:
    moved = row.model_copy(update={"id": ids.source_id(agent_id, row.url, row.sha256)})
    return moved.model_copy(update={"seal": moved.sealed(agent_id)})


def evidence(agent_id: UUID, row: EvidenceRow, thing_id: UUID, source_id: UUID) -> EvidenceRow:
    moved = row.model_copy(
        update={
            "id": ids.evidence_id(thing_id, source_id, row.first_byte, row.end_byte, row.says),
            "thing_id": thing_id,
            "source_id": source_id,
        }
    )
    return moved.model_copy(update={"seal": moved.sealed(agent_id)})


def node_id(old_agent: UUID, agent_id: UUID, row: NodeRow) -> UUID:
    """As its type and name have it, unless its old one was made of an earlier spelling."""
    if row.id == ids.node_id(old_agent, row.type, row.name):
        return ids.node_id(agent_id, row.type, row.name)
    return ids.moved_id(agent_id, row.id)


def node(agent_id: UUID, row: NodeRow, new_id: UUID, of_it: Sequence[UUID]) -> NodeRow:
    """`of_it` is its new evidence. What had no seal gets none."""
    moved = row.model_copy(update={"id": new_id})
    return moved.model_copy(update={"seal": row.seal and moved.sealed(agent_id, of_it)})


def edge(agent_id: UUID, row: EdgeRow, source_id: UUID, target_id: UUID) -> EdgeRow:
    """Between these nodes; not yet sealed."""
    new_id = ids.edge_id(agent_id, row.type, source_id, target_id)
    return row.model_copy(update={"id": new_id, "source_id": source_id, "target_id": target_id})


def sealed_edge(agent_id: UUID, row: EdgeRow, of_it: Sequence[UUID]) -> EdgeRow:
    return row.model_copy(update={"seal": row.seal and row.sealed(agent_id, of_it)})


def recited(value: Any, new_ids: NewIds) -> Any:
    """`value` with new ids in the citations of its texts; those of what is not there stay."""
    match value:
        case str():
            return replaced(value, _new_citation(new_ids))
        case list():
            return [recited(each, new_ids) for each in value]
        case dict():
            return {key: recited(each, new_ids) for key, each in value.items()}
        case _:
            return value


def _new_citation(new_ids: NewIds) -> Callable[[Citation], str | None]:
    def named(citation: Citation) -> str | None:
        new_id = new_ids.get(citation.id)
        return None if new_id is None else str(Citation(citation.kind, new_id))

    return named
