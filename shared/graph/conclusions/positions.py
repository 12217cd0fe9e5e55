"""Positions of one run: advice on one subject with different actions contradicts, unless one replaces the other. Pure."""

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from shared.graph.conclusions.citations import Kind
from shared.graph.grounding.cited import is_mentioned

NOTHING_TO_REPLACE: Final = (
    "replaces: no advice of this run has this id. Leave it out, or give the nodeId that addAgentAdviceNode returned for the "
    "advice that this one replaces."
)


@dataclass(frozen=True)
class SubjectNode:
    id: UUID
    names: tuple[str, ...]


@dataclass(frozen=True)
class Position:
    """A piece of advice, and the nodes that it is about."""

    id: UUID
    title: str
    action: str
    subject: Set[UUID]
    replaces: UUID | None = None


def subject_of(title: str, summary: str, nodes: Iterable[SubjectNode]) -> frozenset[UUID]:
    """Selects from the `nodes` that advice rests on its subject: those that its title names, else its summary, else all."""
    known = list(nodes)
    for text in (title, summary):
        if named := frozenset(
            node.id for node in known if any(is_mentioned(name, [text]) for name in node.names)
        ):
            return named
    return frozenset(node.id for node in known)


def contradiction(new: Position, existing: Iterable[Position]) -> str:
    """Explains why the new advice contradicts existing advice, and how to correct that; empty if it does not.

    Replaced advice does not count.
    """
    others = list(existing)
    replaced = {other.replaces for other in others}
    if new.replaces is not None and new.replaces not in {other.id for other in others}:
        return NOTHING_TO_REPLACE
    for other in others:
        is_opposed = other.action != new.action and not new.subject.isdisjoint(other.subject)
        if is_opposed and other.id not in replaced and other.id != new.replaces:
            return (
                f"{new.action} contradicts {other.action} on the same subject, which this run has advised already: "
                f"“{other.title}” [{Kind.NODE}:{other.id}]. That one stands. If it is wrong, set `replaces` to {other.id} "
                "and say in `content` what changed. If this one is about something else, `name` must say so."
            )
    return ""
