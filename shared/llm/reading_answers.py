"""Parses the verdicts of a model that has read claims and sentences. Pure.

The answer is foreign text: a line that is not exactly of the expected form gives no verdict, and what has none, or two
different ones, counts as unread.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict

from shared.enums import Entailment, SentenceKind, SentenceVerdict
from shared.tools.readings import (
    EXISTS,
    MAX_REASON_CHARS,
    ClaimFinding,
    Material,
    ReadableClaim,
    ReadValue,
    SentenceFinding,
)

_NUMBER: Final = re.compile(r"\s*([0-9]{1,4})[\s.:)]*(.*)", re.DOTALL)
_CODE: Final = re.compile(r"([a-z]{1,2})(?![A-Za-z])[\s.:,–-]*(.*)", re.DOTALL)
ITSELF: Final = "itself"
"""The name of the value that a node or edge exists, in an answer."""
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
) -> tuple[dict[ReadValue, ClaimFinding], dict[int, SentenceFinding]]:
    """The findings on values of claims, and on sentences, by their place.

    A sentence that would pass, and that cites claims alone that their pages contradict, is not stated. Others count by their
    quotes, which the model holds the sentence against.
    """
    answers = _by_number(lines, material.claims)
    claims: dict[ReadValue, ClaimFinding] = {}
    failing: set[int] = set()
    for number, claim in enumerate(material.claims, 1):
        found = _findings_on(claim, answers.get(number, {}))
        for value, finding in found.items():
            claims.setdefault(value, finding)
        contradicted = [each.verdict is Entailment.CONTRADICTED for each in found.values()]
        if claim.verdict is Entailment.CONTRADICTED or (found and all(contradicted)):
            failing.add(number)
    sentences: dict[int, SentenceFinding] = {}
    for place, sentence in enumerate(material.sentences):
        line = answers.get(len(material.claims) + 1 + place, {}).get(None)
        judged = None if line is None else _sentence_finding(*line)
        if judged is None:
            continue
        numbers = material.numbers_of(sentence)
        if not judged.is_failing and numbers and failing.issuperset(numbers):
            judged = SentenceFinding(SentenceKind.STATES, SentenceVerdict.NOT_STATED, NOT_IN_PAGE)
        sentences[place] = judged
    return claims, sentences


_Line = tuple[str, str]
"""A code and a reason."""


def _findings_on(
    claim: ReadableClaim, lines: Mapping[str | None, _Line]
) -> dict[ReadValue, ClaimFinding]:
    """The findings on the values of a claim: each by the line with its name, or by the one without a name.

    A contradiction without a name, and without other lines, is of the whole claim, so that its node does not exist either.
    """
    by_name = {
        name: ClaimFinding(verdict, reason)
        for name, (code, reason) in lines.items()
        if (verdict := _CLAIM_CODES.get(code)) is not None
    }
    of_all = by_name.get(None)
    found: dict[ReadValue, ClaimFinding] = {}
    for name, evidence in claim.values.items():
        finding = by_name.get(ITSELF if name == EXISTS else name, of_all)
        if finding is not None:
            found |= {(each, name): finding for each in evidence}
    existence = by_name.get(ITSELF)
    if len(by_name) == 1 and of_all is not None and of_all.verdict is Entailment.CONTRADICTED:
        existence = of_all
    if existence is not None and None not in claim.values:
        found |= {(each, EXISTS): existence for each in claim.evidence}
    elif EXISTS in claim.values and (claim.values[EXISTS][0], EXISTS) not in found:
        # What its page says of it exists.
        supported = [each for each in found.values() if each.verdict is Entailment.SUPPORTED]
        found |= {(each, EXISTS): supported[0] for each in claim.values[EXISTS] if supported}
    return found


def _by_number(
    lines: Iterable[str], claims: Sequence[ReadableClaim]
) -> dict[int, dict[str | None, _Line]]:
    """Code and reason by number and name of the value, without what has different codes.

    A line of a claim that cannot be read may be on any of its values: what has no line of its own has no verdict then.
    """
    found: dict[int, dict[str | None, _Line]] = {}
    ambiguous: set[tuple[int, str | None]] = set()
    for line in lines:
        if (match := _NUMBER.fullmatch(line)) is None:
            continue
        number, rest = int(match[1]), match[2]
        is_claim = 0 < number <= len(claims)
        named = _named(rest, [*claims[number - 1].values, ITSELF] if is_claim else ())
        if named is None:
            if is_claim:
                ambiguous.add((number, None))
            continue
        name, code, reason = named
        of_number = found.setdefault(number, {})
        if name in of_number and of_number[name][0] != code:
            ambiguous.add((number, name))
        of_number.setdefault(name, (code, " ".join(reason.split())[:MAX_REASON_CHARS]))
    return {
        number: {name: line for name, line in of_number.items() if (number, name) not in ambiguous}
        for number, of_number in found.items()
    }


def _named(text: str, names: Iterable[str | None]) -> tuple[str | None, str, str] | None:
    """The name of a value, if the text begins with one, the code and the reason; None if it is none of these."""
    for name in sorted(filter(None, names), key=len, reverse=True):
        match = re.match(rf"[\"'`]?{re.escape(name)}[\"'`]?[\s.:,=–-]+", text)
        if match and (code := _CODE.fullmatch(text[match.end() :])) and code[1] in _CLAIM_CODES:
            return name, code[1], code[2]
    code = _CODE.fullmatch(text)
    return None if code is None else (None, code[1], code[2])


def _sentence_finding(code: str, reason: str) -> SentenceFinding | None:
    if len(code) != 2 or code[0] not in _KINDS:
        return None
    kind, verdicts = _KINDS[code[0]]
    verdict = verdicts.get(code[1])
    return None if verdict is None else SentenceFinding(kind, verdict, reason)
