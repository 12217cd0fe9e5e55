"""Parses the verdicts of a model that has read claims and sentences. Pure.

The answer is foreign text: a line that is not exactly of the expected form gives no verdict, and what has none, or two
different ones, counts as unread.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from shared.enums import Entailment, SentenceKind, SentenceVerdict
from shared.tools.readings import (
    MAX_REASON_CHARS,
    ClaimFinding,
    Material,
    SentenceFinding,
)

_LINE: Final = re.compile(
    r"\s*([0-9]{1,4})[\s.:)]*([a-z]{1,2})(?![A-Za-z])[\s.:,–-]*(.*)", re.DOTALL
)
_CLAIM_CODES: Final[Mapping[str, Entailment]] = {
    "s": Entailment.SUPPORTED,
    "c": Entailment.CONTRADICTED,
    "n": Entailment.NOT_STATED,
}
_STATED_CODES: Final[Mapping[str, SentenceVerdict]] = {
    "s": SentenceVerdict.SUPPORTED,
    "c": SentenceVerdict.CONTRADICTED,
    "n": SentenceVerdict.NOT_STATED,
}
_INFERRED_CODES: Final[Mapping[str, SentenceVerdict]] = {
    "f": SentenceVerdict.FOLLOWS,
    "p": SentenceVerdict.PLAUSIBLE,
    "d": SentenceVerdict.DOES_NOT_FOLLOW,
}
_KINDS: Final[Mapping[str, tuple[SentenceKind, Mapping[str, SentenceVerdict]]]] = {
    "s": (SentenceKind.STATES, _STATED_CODES),
    "c": (SentenceKind.COMPARES, _STATED_CODES),
    "i": (SentenceKind.INFERS, _INFERRED_CODES),
    "e": (SentenceKind.EXPECTS, _INFERRED_CODES),
}
NOT_IN_PAGE: Final = "What it cites is not in its page."


class ReadingAnswer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    verdicts: list[str]
    """One for each number."""


def read_verdicts(
    lines: Sequence[str], material: Material
) -> tuple[dict[UUID, ClaimFinding], dict[int, SentenceFinding]]:
    """The findings on claims, by evidence, and on sentences, by their place.

    A sentence that would pass, and that cites claims alone that their pages contradict, is not stated. Others count by their
    quotes, which the model holds the sentence against.
    """
    by_number = _by_number(lines)
    of_evidence: dict[UUID, list[ClaimFinding | None]] = {}
    failing = {
        number
        for number, claim in enumerate(material.claims, 1)
        if claim.verdict is Entailment.CONTRADICTED
    }
    for number, claim in enumerate(material.claims, 1):
        code, reason = by_number.get(number, ("", ""))
        verdict = _CLAIM_CODES.get(code)
        finding = None if verdict is None else ClaimFinding(verdict, reason)
        for evidence in claim.evidence:
            of_evidence.setdefault(evidence, []).append(finding)
        if claim.evidence and verdict is Entailment.CONTRADICTED:
            failing.add(number)
    sentences: dict[int, SentenceFinding] = {}
    for place, sentence in enumerate(material.sentences):
        line = by_number.get(len(material.claims) + 1 + place)
        found = None if line is None else _sentence_finding(*line)
        if found is None:
            continue
        numbers = material.numbers_of(sentence)
        if not found.is_failing and numbers and failing.issuperset(numbers):
            found = SentenceFinding(SentenceKind.STATES, SentenceVerdict.NOT_STATED, NOT_IN_PAGE)
        sentences[place] = found
    claims = {evidence: _worst(each) for evidence, each in of_evidence.items()}
    return {evidence: each for evidence, each in claims.items() if each is not None}, sentences


def _worst(findings: Sequence[ClaimFinding | None]) -> ClaimFinding | None:
    """The finding on evidence whose values are several claims; None unless each has one, or one is contradicted."""
    given = [each for each in findings if each is not None]
    for each in given:
        if each.verdict is Entailment.CONTRADICTED:
            return each
    if len(given) < len(findings):
        return None
    return min(given, key=lambda each: each.verdict is not Entailment.NOT_STATED)


def _by_number(lines: Iterable[str]) -> dict[int, tuple[str, str]]:
    """Code and reason by number, without numbers that have different codes."""
    found: dict[int, tuple[str, str]] = {}
    ambiguous: set[int] = set()
    for line in lines:
        if (match := _LINE.fullmatch(line)) is None:
            continue
        number, code = int(match[1]), match[2]
        if number in found and found[number][0] != code:
            ambiguous.add(number)
        found.setdefault(number, (code, " ".join(match[3].split())[:MAX_REASON_CHARS]))
    return {number: each for number, each in found.items() if number not in ambiguous}


def _sentence_finding(code: str, reason: str) -> SentenceFinding | None:
    if len(code) != 2 or code[0] not in _KINDS:
        return None
    kind, verdicts = _KINDS[code[0]]
    verdict = verdicts.get(code[1])
    return None if verdict is None else SentenceFinding(kind, verdict, reason)
