"""Deterministic ids: the same thing made twice is the same row (promise: effects happen once)."""

from datetime import date
from uuid import NAMESPACE_URL, UUID, uuid5

from shared.enums import Phase, StepKind

_STATE_NAMESPACE = uuid5(NAMESPACE_URL, "urn:vigil:state")


def _derived(kind: str, *parts: object) -> UUID:
    # Lengths are part of the name, so that no two lists of parts can read the same.
    name = "".join([f"{len(part)}:{part}" for part in map(str, (kind, *parts))])
    return uuid5(_STATE_NAMESPACE, name)


def iteration_id(agent_id: UUID, number: int) -> UUID:
    return _derived("iteration", agent_id, number)


def step_id(of: UUID, kind: StepKind, index: int) -> UUID:
    """`of` is the step's iteration, or its agent where it has none."""
    return _derived("step", of, kind, index)


def interaction_id(step: UUID, phase: Phase) -> UUID:
    return _derived("interaction", step, phase)


def call_id(step: UUID, request_hash: str) -> UUID:
    return _derived("call", step, request_hash)


def node_id(agent_id: UUID, type_name: str, name: str) -> UUID:
    return _derived("node", agent_id, type_name, name)


def edge_id(agent_id: UUID, type_name: str, source_id: UUID, target_id: UUID) -> UUID:
    return _derived("edge", agent_id, type_name, source_id, target_id)


def moved_id(agent_id: UUID, old_id: UUID) -> UUID:
    """Of a node whose id an earlier spelling of its name had made, when it comes to another agent."""
    return _derived("moved", agent_id, old_id)


def source_id(agent_id: UUID, url: str, sha256: bytes) -> UUID:
    return _derived("source", agent_id, url, sha256.hex())


def evidence_id(thing_id: UUID, source_id: UUID, first_byte: int, end_byte: int, says: str) -> UUID:
    """`says` is the canonical form of its claims and of when they hold."""
    return _derived("evidence", thing_id, source_id, first_byte, end_byte, says)


def investigation_request_id(step: UUID, objective: str) -> UUID:
    return _derived("investigation_request", step, objective)


def inbox_item_id(advice_id: UUID) -> UUID:
    return _derived("inbox_item", advice_id)


def delivery_id(destination_id: UUID, inbox_item: UUID) -> UUID:
    return _derived("delivery", destination_id, inbox_item)


def notice_id(agent_id: UUID, cause: str, day: date) -> UUID:
    return _derived("notice", agent_id, cause, day.isoformat())


def doubt_id(conclusion_id: UUID, thing_id: UUID, source_id: UUID) -> UUID:
    return _derived("doubt", conclusion_id, thing_id, source_id)


def conversation_id(agent_id: UUID) -> UUID:
    return _derived("conversation", agent_id)


def message_id(advice_id: UUID) -> UUID:
    return _derived("message", advice_id)


def question_id(agent_id: UUID, turn: int) -> UUID:
    return _derived("question", agent_id, turn)


def answer_id(agent_id: UUID, turn: int) -> UUID:
    return _derived("answer", agent_id, turn)


def memory_id(agent_id: UUID, kind: str, content: str) -> UUID:
    return _derived("memory", agent_id, kind, content)


def dead_letter_id(subject: str, payload: bytes) -> UUID:
    return _derived("dead_letter", subject, payload.hex())


def own_token_id(owner_id: UUID) -> UUID:
    return _derived("own_token", owner_id)
