"""What a conclusion must cite, decided from its text and from what exists (promise G9)."""

import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from shared.enums import ANALYSIS_TYPE

_MOST_TOLD = 5
# Anything that sets out to be a citation, so that one written wrongly is told rather than overlooked.
_ATTEMPT = re.compile(r"\[\s*(?:node|edge)\s*:[^\]\n]{0,200}\]?", re.IGNORECASE)
_CITATION = re.compile(
    r"\[(node|edge):([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\]", re.IGNORECASE
)


class Kind(StrEnum):
    NODE = "node"
    EDGE = "edge"


@dataclass(frozen=True)
class Citation:
    kind: Kind
    id: UUID

    def __str__(self) -> str:
        return f"[{self.kind}:{self.id}]"


@dataclass(frozen=True)
class Cited:
    """What a text cites: each thing once, in the order of the text; and what reads like a citation but is none."""

    citations: tuple[Citation, ...]
    malformed: tuple[str, ...]

    def ids(self, kind: Kind | None = None) -> list[UUID]:
        """Of both kinds, unless `kind` says which."""
        return [each.id for each in self.citations if kind is None or each.kind == kind]


@dataclass(frozen=True)
class Found:
    """What of the cited there is in this agent's graph: the types of the nodes by id, and the edges."""

    node_types: Mapping[UUID, str]
    edges: Set[UUID]
    unsupported: Set[UUID] = frozenset()
    """Those of both that rest on retracted pages alone, or are in doubt because of one."""

    def has(self, citation: Citation) -> bool:
        known = self.node_types if citation.kind == Kind.NODE else self.edges
        return citation.id in known


class Why(StrEnum):
    MALFORMED = "malformed"
    NOTHING_CITED = "nothing_cited"
    DOES_NOT_EXIST = "does_not_exist"
    NOT_AN_ANALYSIS = "not_an_analysis"
    RETRACTED = "retracted"


@dataclass(frozen=True)
class Refusal:
    why: Why
    reason: str
    """For the model: what is wrong, and how to mend it."""


def parse(*texts: str) -> Cited:
    citations: dict[Citation, None] = {}
    malformed: dict[str, None] = {}
    for text in texts:
        for attempt in _ATTEMPT.findall(text):
            match = _CITATION.fullmatch(attempt)
            if match is None:
                malformed[attempt] = None
            else:
                citations[Citation(Kind(match[1].lower()), UUID(match[2]))] = None
    return Cited(tuple(citations), tuple(malformed))


def replaced(text: str, name_of: Callable[[Citation], str | None]) -> str:
    """`text` with each citation replaced by what `name_of` gives for it; those for which it gives None stay."""

    def named(match: re.Match[str]) -> str:
        name = name_of(Citation(Kind(match[1].lower()), UUID(match[2])))
        return match[0] if name is None else name

    return _CITATION.sub(named, text)


def refuse_analysis(content: str, summary: str, found: Found) -> Refusal | None:
    """None where the content cites at least one node or edge, and content and summary only what exists."""
    if not parse(content).citations and not parse(content).malformed:
        return Refusal(
            Why.NOTHING_CITED,
            "content cites nothing. Behind each statement, cite the node or edge it rests on, as [node:uuid] or "
            "[edge:uuid], with ids that queryGraph gives.",
        )
    return (
        _refuse_unreadable(content, summary)
        or _refuse_missing(content, summary, found)
        or _refuse_retracted(content, summary, found)
    )


def refuse_advice(content: str, summary: str, found: Found) -> Refusal | None:
    """None where the content cites at least one AgentAnalysis, and content and summary nothing else."""
    if not parse(content).citations and not parse(content).malformed:
        return Refusal(
            Why.NOTHING_CITED,
            f"content cites nothing. Advice stands on analyses: cite each {ANALYSIS_TYPE} it rests on as "
            "[node:uuid].",
        )
    return (
        _refuse_unreadable(content, summary)
        or _refuse_missing(content, summary, found)
        or _refuse_others(content, summary, found)
        or _refuse_retracted(content, summary, found)
    )


def _refuse_unreadable(*texts: str) -> Refusal | None:
    malformed = parse(*texts).malformed
    if not malformed:
        return None
    return Refusal(
        Why.MALFORMED,
        f"Not citations: {_listed(malformed)}. Write each as [node:uuid] or [edge:uuid], one id to a pair of "
        "brackets, with the full id and no blanks.",
    )


def _refuse_missing(content: str, summary: str, found: Found) -> Refusal | None:
    missing = [each for each in parse(content, summary).citations if not found.has(each)]
    if not missing:
        return None
    return Refusal(
        Why.DOES_NOT_EXIST,
        f"These do not exist: {_listed(missing)}. Cite only what queryGraph or your instructions show, with the "
        "ids as they stand there (a node is not an edge).",
    )


def _refuse_retracted(content: str, summary: str, found: Found) -> Refusal | None:
    fallen = [each for each in parse(content, summary).citations if each.id in found.unsupported]
    if not fallen:
        return None
    return Refusal(
        Why.RETRACTED,
        f"These rest on a page that was retracted: {_listed(fallen)}. Conclude only what stands without them, "
        "or nothing.",
    )


def _refuse_others(content: str, summary: str, found: Found) -> Refusal | None:
    others = [
        each
        for each in parse(content, summary).citations
        if each.kind == Kind.EDGE or found.node_types[each.id] != ANALYSIS_TYPE
    ]
    if not others:
        return None
    named = [f"{each} ({found.node_types.get(each.id, 'an edge')})" for each in others]
    return Refusal(
        Why.NOT_AN_ANALYSIS,
        f"Advice cites {ANALYSIS_TYPE} nodes and nothing else, but these are not: {_listed(named)}. Cite the "
        "analyses that rest on them; where there is none, there is no advice to give.",
    )


def _listed(things: Sequence[object]) -> str:
    told = ", ".join(str(thing) for thing in things[:_MOST_TOLD])
    more = len(things) - _MOST_TOLD
    return f"{told} and {more} more" if more > 0 else told
