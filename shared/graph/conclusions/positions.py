"""Positions: an agent has one position on a subject, over all its iterations. Pure.

Advice is a position on its subject until it is replaced, withdrawn, in doubt, or past its horizon. New advice on a subject
that has a position must say that it replaces it; if it contradicts one on a related subject, that or why both hold.
`docs/decisions/0068-one-position-on-a-subject.md` and `docs/decisions/0080-related-subjects.md` explain the rules.

Writers hold the agent's lock for tool writes (`shared.database.locks.tool_write_lock`) from before they load the positions,
so that no two of them write on one subject at the same time. Positions that have not ended have no node in common. A merge
of nodes can give them one; then the one that was stated last stands, and the merge changes no row.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date, datetime
from types import MappingProxyType
from typing import Final
from uuid import UUID

from shared.enums import PositionState
from shared.graph.conclusions.subjects import (
    MARKET_ACTIONS,
    Stated,
    SubjectNode,
    Ties,
    find_subject,
    listed,
)
from shared.graph.prompt_format import json_line, quote_name, truncate_text
from shared.tools import ToolRefusalError

WAS_DOUBTED: Final = "It was in doubt when this was advised."
HAD_EXPIRED: Final = "Its horizon had passed when this was advised."
WAS_MERGED: Final = "What they are about was merged, and this was stated later."
WAS_EARLIER: Final = "It was advised earlier, before advice had to say what it replaces."


@dataclass(frozen=True)
class Position:
    """A piece of advice and its state. `subject` has the present ids of the nodes, with their names."""

    id: UUID
    agent_id: UUID
    title: str
    action: str
    subject: Mapping[UUID, str]
    confidence: float | None
    horizon: date | None
    stated_at: datetime
    """When it was given or last confirmed."""
    confirmations: int = 0
    ended_at: datetime | None = None
    replaced_by: UUID | None = None
    replaced_by_title: str | None = None
    reason: str | None = None
    is_doubted: bool = False
    summary: str = ""
    content: str = ""
    invalidation: str = ""

    def overlaps(self, subject: Set[UUID]) -> bool:
        return not subject.isdisjoint(self.subject)

    @property
    def stated(self) -> Stated:
        nodes = [SubjectNode(node_id, (name,)) for node_id, name in self.subject.items()]
        return Stated(self.action, nodes, f"{self.title}. {self.summary}")

    def is_later_than(self, other: "Position") -> bool:
        """Two can be stated at once only in one statement; then their ids decide."""
        return (self.stated_at, self.id) > (other.stated_at, other.id)


@dataclass(frozen=True)
class Standing:
    """Whether a position stands, and if not, why."""

    state: PositionState
    replaced_by: tuple[UUID, str] | None = None
    """Id and title."""
    reason: str | None = None


def judge(position: Position, others: Iterable[Position], today: date) -> Standing:
    """`others` are positions of any agents; those that have ended do not count."""
    if position.ended_at is not None:
        if position.replaced_by is None:
            return Standing(PositionState.WITHDRAWN, reason=position.reason)
        newer = (position.replaced_by, position.replaced_by_title or "")
        return Standing(PositionState.REPLACED, newer, position.reason)
    for other in others:
        if (
            other.agent_id == position.agent_id
            and other.ended_at is None
            and other.is_later_than(position)
            and other.overlaps(position.subject.keys())
        ):
            return Standing(PositionState.REPLACED, (other.id, other.title), WAS_MERGED)
    if position.is_doubted:
        return Standing(PositionState.DOUBTED)
    if position.horizon is not None and position.horizon < today:
        return Standing(PositionState.EXPIRED)
    return Standing(PositionState.STANDING, reason=position.reason)


def standing(positions: Sequence[Position], today: date) -> list[Position]:
    """Those of an agent's positions that stand, in their order."""
    return [
        each for each in positions if judge(each, positions, today).state is PositionState.STANDING
    ]


@dataclass(frozen=True)
class Placed:
    """Where new advice stands."""

    subject: frozenset[UUID]
    ended: Mapping[UUID, str]
    """The positions that it replaces, with the reason for each."""
    note: str
    """For the owner: what it replaces and what changed, or which contradicting advice it stands beside and why; empty if
    there is neither.
    """


@dataclass(frozen=True)
class Declaration:
    """The action and subject that new advice declares, and the advice that it replaces or contradicts."""

    action: str
    subject: Collection[UUID] = ()
    replaces: Collection[UUID] = ()
    change: str = ""

    def place(
        self,
        name: str,
        summary: str,
        nodes: Sequence[SubjectNode],
        positions: Sequence[Position],
        today: date,
        ties: Ties = MappingProxyType({}),
    ) -> Placed:
        """`nodes` are what the advice rests on, `positions` those of the agent that have not ended, and `ties` relate them.

        Raises ToolRefusalError if advice on its subject stands that it does not replace, or if advice that contradicts it
        on a related subject stands that it neither replaces nor names in `change`.
        """
        replaced = [each for each in positions if each.id in self.replaces]
        inherited = {node for each in replaced for node in each.subject}
        subject = find_subject(self.subject, name, summary, nodes, inherited)
        overlapping = [each for each in positions if each.overlaps(subject)]
        stands = standing(positions, today)
        new = Stated(self.action, [n for n in nodes if n.id in subject], f"{name}. {summary}")
        related = {
            each.id: relation
            for each in stands
            if each not in overlapping and (relation := new.relation(each.stated, ties))
        }
        ended = [each for each in positions if each in overlapping or each.id in self.replaces]
        if reason := self._refusal(overlapping, stands, related):
            raise ToolRefusalError(reason)
        beside = [
            each
            for each in stands
            if each.id in related and each not in replaced and new.contradicts(each.stated)
        ]
        if unexplained := [each for each in beside if not self._explains(each)]:
            raise ToolRefusalError(_beside_refusal(self.action, unexplained, related))
        return Placed(
            subject,
            {each.id: self._why_ended(each, today) for each in ended},
            self._note(replaced, beside),
        )

    def _explains(self, position: Position) -> bool:
        """Whether `change` is about the position too: it names its subject."""
        nodes = position.stated.nodes
        return any(
            each.is_named_in(self.change) or each.is_described_in(self.change) for each in nodes
        )

    def _note(self, replaced: Sequence[Position], beside: Sequence[Position]) -> str:
        if not (replaced or beside):
            return ""
        parts = [
            f"{verb} {' and '.join(titles)}"
            for verb, titles in (
                ("replaces", [f"“{each.title}”" for each in replaced]),
                ("stands beside", [f"{each.action} “{each.title}”" for each in beside]),
            )
            if titles
        ]
        return f" This {' and '.join(parts)}: {self.change}"

    def _refusal(
        self,
        overlapping: Sequence[Position],
        standing: Sequence[Position],
        related: Collection[UUID],
    ) -> str:
        """Explains why the advice cannot be given on its subject, and what to do; empty if it can."""
        stands = [each for each in overlapping if each in standing]
        if unknown := set(self.replaces) - {each.id for each in overlapping} - set(related):
            given = ", ".join(f"[node:{each}]" for each in sorted(unknown))
            return f"replaces: {given} is no standing advice on this subject.{_sentences(stands)}"
        undeclared = [each for each in stands if each.id not in self.replaces]
        if not undeclared:
            return ""
        another = " If this advice is about another node, set `subject` to that."
        if any(each.action != self.action for each in undeclared):
            return (
                f"{self.action} contradicts advice that stands.{_sentences(undeclared)} If that is no longer right, set"
                f" `replaces` to its id and say in `change` what changed.{another}"
            )
        return (
            f"There is a position on this subject.{_sentences(undeclared)} If it still holds, confirm it with reviewAdvice."
            f" To say it anew, set `replaces` to its id and say in `change` what changed.{another}"
        )

    def _why_ended(self, position: Position, today: date) -> str:
        if position.id in self.replaces:
            return self.change
        if position.is_doubted:
            return WAS_DOUBTED
        is_over = position.horizon is not None and position.horizon < today
        return HAD_EXPIRED if is_over else WAS_MERGED


def _beside_refusal(action: str, positions: Iterable[Position], related: Mapping[UUID, str]) -> str:
    stands = "".join(
        f"{_sentences([each]).removesuffix('.')} ({related[each.id]})." for each in positions
    )
    return (
        f"{action} contradicts advice on a related subject.{stands} If that is no longer right, set `replaces` to its id and"
        " say in `change` what changed. If both hold, say in `change` why, and name its subject."
    )


def _sentences(positions: Iterable[Position]) -> str:
    return "".join(
        f" {each.action} “{each.title}” [node:{each.id}] stands on {listed(each.subject)}."
        for each in positions
    )


def contradicting(positions: Sequence[Position], ties: Ties) -> dict[UUID, list[Position]]:
    """For each of these positions, the others that contradict it on a related subject, if there are any."""
    found = {
        one.id: [
            other
            for other in positions
            if one.id != other.id
            and one.stated.contradicts(other.stated)
            and one.stated.relation(other.stated, ties)
        ]
        for one in positions
    }
    return {key: others for key, others in found.items() if others}


def position_line(
    position: Position, now: datetime, content_chars: int, beside: Iterable[Position] = ()
) -> str:
    """`- [node:…] BUY "Ghana is cheap" on "Ghana" [node:…]; until 2027-03-31, confidence 0.6, since 2026-11-30 {…}`.

    No time is later than `now`, that of the agent. The content is cut to `content_chars`. `beside` are those that
    contradict it on a related subject.
    """
    about = ", ".join(
        f"{quote_name(name)} [node:{each}]" for each, name in position.subject.items()
    )
    stated = min(position.stated_at, now)
    terms = [
        f"until {position.horizon}" if position.horizon else "",
        f"confidence {position.confidence:g}" if position.confidence is not None else "",
        f"{'confirmed' if position.confirmations else 'since'} {stated:%Y-%m-%d}",
        *(f"beside {each.action} [node:{each.id}]" for each in beside),
    ]
    texts = {
        "summary": position.summary,
        "invalidation": position.invalidation,
        "content": truncate_text(position.content, content_chars) if content_chars else "",
    }
    return (
        f"- [node:{position.id}] {position.action} {quote_name(position.title)} on {about};"
        f" {', '.join(filter(None, terms))} {json_line({key: text for key, text in texts.items() if text})}"
    )


_RULE: Final = """\
`standing_advice` is your position on each subject. If it holds and the new analyses support it, confirm it with \
reviewAdvice. If they change it, advise anew with its id in `replaces`, and `change`. If it no longer holds and nothing \
takes its place, withdraw it."""
_RELATED_RULE: Final = """\
BUY, HOLD and SELL exclude each other on related subjects too (a company, its share, its bond): replace one, or say in \
`change` why both hold."""


def rule(standing_advice: str) -> str:
    """The rule that stands beside standing advice, of which the lines are given; of markets only where they are meant."""
    is_of_markets = any(f"] {action} " in standing_advice for action in MARKET_ACTIONS)
    return f"{_RULE} {_RELATED_RULE}" if is_of_markets else _RULE
