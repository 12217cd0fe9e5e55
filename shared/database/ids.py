"""Deterministic ids: creating the same thing twice yields the same row, so effects happen once."""

from datetime import date
from uuid import NAMESPACE_URL, UUID, uuid5

from shared.enums import Phase, StepKind

_STATE_NAMESPACE = uuid5(NAMESPACE_URL, "urn:vigil:state")


def _derive_id(kind: str, *parts: object) -> UUID:
    # Lengths are part of the name, so that different lists of parts never collide.
    name = "".join([f"{len(part)}:{part}" for part in map(str, (kind, *parts))])
    return uuid5(_STATE_NAMESPACE, name)


def iteration_id(agent_id: UUID, number: int) -> UUID:
    """Ids of an agent's iterations are in the order of their numbers, as a UUID of version 8.

    Rows of iterations are deleted in the order in which they were inserted. In indexes by hashes of these ids, every page
    would keep some of them, and be ever emptier.
    """
    agent = _derive_id("iteration", agent_id).int
    high, low = divmod(number, 1 << 20)
    # 48 bits of the hash, version, 12 bits of the number, variant, its other 20 bits, 42 bits of the hash.
    return UUID(
        int=agent >> 80 << 80 | 8 << 76 | high << 64 | 2 << 62 | low << 42 | agent & ((1 << 42) - 1)
    )


def step_id(parent_id: UUID, kind: StepKind, index: int) -> UUID:
    """`parent_id` is the step's iteration, or the agent for a step without iteration."""
    return _derive_id("step", parent_id, kind, index)


def interaction_id(step: UUID, phase: Phase) -> UUID:
    return _derive_id("interaction", step, phase)


def call_id(step: UUID, request_hash: str) -> UUID:
    return _derive_id("call", step, request_hash)


def node_id(agent_id: UUID, type_name: str, name: str) -> UUID:
    return _derive_id("node", agent_id, type_name, name)


def edge_id(agent_id: UUID, type_name: str, source_id: UUID, target_id: UUID) -> UUID:
    return _derive_id("edge", agent_id, type_name, source_id, target_id)


def imported_id(agent_id: UUID, old_id: UUID) -> UUID:
    """The new id of an imported node whose old id was derived from another spelling of its name."""
    return _derive_id("moved", agent_id, old_id)


def source_id(agent_id: UUID, url: str, sha256: bytes) -> UUID:
    return _derive_id("source", agent_id, url, sha256.hex())


def evidence_id(
    element_id: UUID, source_id: UUID, start_byte: int, end_byte: int, content: str
) -> UUID:
    """`content` is the canonical form of its claims and of their validity period."""
    return _derive_id("evidence", element_id, source_id, start_byte, end_byte, content)


def investigation_request_id(agent: UUID, question_key: str) -> UUID:
    return _derive_id("investigation_request", agent, question_key)


def news_item_id(iteration: UUID, kind: str, url: str) -> UUID:
    return _derive_id("news_item", iteration, kind, url)


def inbox_item_id(advice_id: UUID) -> UUID:
    return _derive_id("inbox_item", advice_id)


def delivery_id(destination_id: UUID, inbox_item: UUID) -> UUID:
    return _derive_id("delivery", destination_id, inbox_item)


def notice_id(agent_id: UUID, cause: str, day: date) -> UUID:
    return _derive_id("notice", agent_id, cause, day.isoformat())


def doubt_id(conclusion_id: UUID, element_id: UUID, source_id: UUID) -> UUID:
    return _derive_id("doubt", conclusion_id, element_id, source_id)


def conversation_id(agent_id: UUID) -> UUID:
    return _derive_id("conversation", agent_id)


def message_id(advice_id: UUID) -> UUID:
    return _derive_id("message", advice_id)


def withdrawal_message_id(advice_id: UUID) -> UUID:
    return _derive_id("message", advice_id, "withdrawn")


def question_id(agent_id: UUID, turn: int) -> UUID:
    return _derive_id("question", agent_id, turn)


def answer_id(agent_id: UUID, turn: int) -> UUID:
    return _derive_id("answer", agent_id, turn)


def memory_id(agent_id: UUID, kind: str, content: str) -> UUID:
    return _derive_id("memory", agent_id, kind, content)


def dead_letter_id(subject: str, payload: bytes) -> UUID:
    return _derive_id("dead_letter", subject, payload.hex())


def own_token_id(owner_id: UUID) -> UUID:
    return _derive_id("own_token", owner_id)
