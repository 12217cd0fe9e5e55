"""Citations: what a conclusion must cite, decided from its text and from what exists. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from shared.enums import ANALYSIS_TYPE

_MAX_LISTED = 5
MIN_ANALYSES = 2
"""Of an advice, unless the agent's owner allows one."""
# Anything that looks like a citation, so that a malformed one is reported instead of ignored.
_ATTEMPT = re.compile(r"\[\s*(?:node|edge)\s*:[^\]\n]{0,200}\]?", re.IGNORECASE)
_CITATION = re.compile(
    r"\[(node|edge):([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\]", re.IGNORECASE
)
_CITATION_AFTER_BLANK = re.compile(f" ?{_CITATION.pattern}", re.IGNORECASE)
CITATION_SQL = r"\[(?:node|edge):([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\]"
"""The same for PostgreSQL, in any case; its group is the id."""


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
class ParsedCitations:
    """The citations of a text, each once and in order; and what looks like a citation but is malformed."""

    citations: tuple[Citation, ...]
    malformed: tuple[str, ...]

    def ids(self, kind: Kind | None = None) -> list[UUID]:
        """The cited ids, of both kinds unless `kind` selects one."""
        return [citation.id for citation in self.citations if kind is None or citation.kind == kind]


@dataclass(frozen=True)
class CitedElements:
    """The cited elements that exist in the agent's graph: node types by id, and edge ids."""

    node_types: Mapping[UUID, str]
    edges: Set[UUID]
    unsupported: Set[UUID] = frozenset()
    """Nodes and edges that rest only on retracted sources."""
    doubted: Set[UUID] = frozenset()
    """Conclusions in doubt: something that they rest on was retracted, or does not support them."""

    def has(self, citation: Citation) -> bool:
        ids = self.node_types if citation.kind == Kind.NODE else self.edges
        return citation.id in ids


class RefusalCode(StrEnum):
    MALFORMED = "malformed"
    NOTHING_CITED = "nothing_cited"
    DOES_NOT_EXIST = "does_not_exist"
    NOT_AN_ANALYSIS = "not_an_analysis"
    RETRACTED = "retracted"
    DOUBTED = "doubted"
    TOO_FEW = "too_few"


@dataclass(frozen=True)
class Refusal:
    code: RefusalCode
    reason: str
    """For the model: what is wrong, and how to correct it."""


def parse_citations(*texts: str) -> ParsedCitations:
    citations: dict[Citation, None] = {}
    malformed: dict[str, None] = {}
    for text in texts:
        for attempt in _ATTEMPT.findall(text):
            match = _CITATION.fullmatch(attempt)
            if match is None:
                malformed[attempt] = None
            else:
                citations[Citation(Kind(match[1].lower()), UUID(match[2]))] = None
    return ParsedCitations(tuple(citations), tuple(malformed))


def replace_citations(text: str, name_of: Callable[[Citation], str | None]) -> str:
    """Replace each citation by the result of `name_of`; None keeps the citation."""

    def replace(match: re.Match[str]) -> str:
        name = name_of(Citation(Kind(match[1].lower()), UUID(match[2])))
        return match[0] if name is None else name

    return _CITATION.sub(replace, text)


def without_citations(text: str) -> str:
    """The text without its citations, and the blank before each."""
    return _CITATION_AFTER_BLANK.sub("", text).strip()


def refuse_analysis(content: str, summary: str, cited: CitedElements) -> Refusal | None:
    """None if the content cites at least one node or edge, and content and summary cite only existing ones."""
    return _refuse_uncited(
        content,
        "content cites nothing. Behind each statement, cite the node or edge it rests on, as [n17] or "
        "[e4], with the ids that you were given.",
    ) or _refuse_citations(content, summary, cited, only_analyses=False)


def refuse_advice(
    content: str, summary: str, cited: CitedElements, min_analyses: int = MIN_ANALYSES
) -> Refusal | None:
    """None if the content cites at least `min_analyses` of AgentAnalysis, and content and summary cite nothing else."""
    return (
        _refuse_uncited(
            content,
            f"content cites nothing. Advice stands on analyses: cite each {ANALYSIS_TYPE} it rests on as "
            "[n17].",
        )
        or _refuse_citations(content, summary, cited, only_analyses=True)
        or _refuse_few(content, min_analyses)
    )


def _refuse_few(content: str, min_analyses: int) -> Refusal | None:
    count = len(set(parse_citations(content).ids()))
    if count >= min_analyses:
        return None
    return Refusal(
        RefusalCode.TOO_FEW,
        f"content cites {count} {ANALYSIS_TYPE}, but advice needs {min_analyses} that differ. Cite another that "
        "supports it; if there is none, give no advice.",
    )


def _refuse_uncited(content: str, reason: str) -> Refusal | None:
    parsed = parse_citations(content)
    is_cited = parsed.citations or parsed.malformed
    return None if is_cited else Refusal(RefusalCode.NOTHING_CITED, reason)


def _refuse_citations(
    content: str, summary: str, cited: CitedElements, *, only_analyses: bool
) -> Refusal | None:
    parsed = parse_citations(content, summary)
    if parsed.malformed:
        return Refusal(
            RefusalCode.MALFORMED,
            f"Not citations: {_join_listed(parsed.malformed)}. Write each as [n17] or [e4], one id to a "
            "pair of brackets, with the full id and no blanks.",
        )
    if missing := [citation for citation in parsed.citations if not cited.has(citation)]:
        return Refusal(
            RefusalCode.DOES_NOT_EXIST,
            f"These do not exist: {_join_listed(missing)}. Cite only what queryGraph or your instructions show, with "
            "the exact ids (a node is not an edge).",
        )
    types = {
        citation: cited.node_types.get(citation.id, "an edge") for citation in parsed.citations
    }
    others = [f"{citation} ({name})" for citation, name in types.items() if name != ANALYSIS_TYPE]
    if others and only_analyses:
        return Refusal(
            RefusalCode.NOT_AN_ANALYSIS,
            f"Advice cites {ANALYSIS_TYPE} nodes and nothing else, but these are not: {_join_listed(others)}. Cite the "
            "analyses that rest on them; if there is none, give no advice.",
        )
    if retracted := [each for each in parsed.citations if each.id in cited.unsupported]:
        return Refusal(
            RefusalCode.RETRACTED,
            f"These rest on a page that was retracted: {_join_listed(retracted)}. Conclude only what holds without "
            "them, or nothing.",
        )
    if doubted := [each for each in parsed.citations if each.id in cited.doubted]:
        return Refusal(
            RefusalCode.DOUBTED,
            f"These are in doubt: {_join_listed(doubted)}. What they rest on was retracted or is contradicted by its "
            "evidence. Conclude only what holds without them, or nothing.",
        )
    return None


def _join_listed(items: Sequence[object]) -> str:
    listing = ", ".join(str(item) for item in items[:_MAX_LISTED])
    more = len(items) - _MAX_LISTED
    return f"{listing} and {more} more" if more > 0 else listing
