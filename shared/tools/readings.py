"""What a model reads before a conclusion is stored, and what it finds. Pure data, between the graph and the model."""

from collections.abc import Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID

from shared.enums import Entailment, SentenceKind, SentenceVerdict
from shared.tools import Json

MAX_REASON_CHARS = 300
"""Length of the reason of a verdict."""
EXISTS = ""
"""The name of the value that a node or edge exists."""
OWN_SIGNS = str.maketrans("»«|", "''/")
"""Signs that only Vigil writes into a request: around quotes, and between the parts of a claim."""
_CONTRADICTED = "contradicted"
MAX_LINES = 100
"""Claims and sentences of one request."""
MAX_PASSAGES_BYTES = 12_000
"""Size of the quotes of one request, some 3,500 tokens."""


@dataclass(frozen=True)
class ReadableClaim:
    """What an element says. Its number in the request is its place in `Material.claims`, from 1."""

    text: str
    values: Mapping[str | None, Sequence[UUID]] = field(default_factory=dict)
    """The evidence of one page for each value that has no verdict yet, by its name; EXISTS: that the node or edge exists.
    None: for all that it says, as earlier releases have recorded it. Empty if no verdict is needed: it was read before, or
    it is the text of an analysis.
    """
    passage: str = ""
    """The quotes in » «, of a claim that is to be read between their neighbours."""
    page: str = ""
    """Title and date of its page, if the claim is to be read."""
    verdict: Entailment | None = None
    """That of an earlier reading."""

    @property
    def evidence(self) -> list[UUID]:
        return list(dict.fromkeys(each for ids in self.values.values() for each in ids))

    @property
    def names(self) -> list[str | None]:
        """Those of its values; EXISTS only if it has no others."""
        return [name for name in self.values if name != EXISTS] or [*self.values]

    @property
    def is_unread(self) -> bool:
        return bool(self.evidence) and self.verdict is None


@dataclass(frozen=True)
class ReadableSentence:
    """A sentence of a conclusion, with the numbers of the claims that it cites."""

    conclusion_id: UUID
    number: int
    """Within its conclusion, from 1."""
    text: str
    claims: tuple[int, ...]
    """Empty: it is held against all claims of its conclusion."""
    role: str = ""
    """Its place in the conclusion, such as the title; empty if it is a sentence of the text."""
    basis: str = ""
    """A digest of what its claims show; empty if it is not known."""


@dataclass(frozen=True)
class Material:
    """Claims and sentences for a model to read. Sentences are numbered after the claims."""

    claims: Sequence[ReadableClaim] = ()
    sentences: Sequence[ReadableSentence] = ()
    now: datetime | None = None
    """The time of the agent, if the sentences depend on it."""
    standing: Sequence[str] = ()
    """Advice that stands beside that of the sentences."""
    mission: str = ""
    """What the owner says: sentences can state what the owner has and wants."""
    shown: Set[str] = frozenset()
    """What the claims show, for the comparison with an earlier reading."""

    def as_json(self) -> Json:
        """Everything that the verdicts need, for a run that is resumed; the request has the texts of claims."""
        return {
            # The release before knows no values.
            "claims": [
                _CONTRADICTED
                if claim.verdict is Entailment.CONTRADICTED
                else " ".join(map(str, claim.evidence))
                for claim in self.claims
            ],
            "values": [
                {
                    name: [claim.evidence.index(each) for each in ids]
                    for name, ids in claim.values.items()
                }
                for claim in self.claims
            ],
            "sentences": [
                [str(each.conclusion_id), each.number, each.text, [*each.claims]]
                for each in self.sentences
            ],
        }

    @classmethod
    def from_json(cls, value: Json) -> "Material":
        """From `as_json`."""
        claims = value["claims"]
        return cls(
            [
                ReadableClaim("", verdict=Entailment.CONTRADICTED)
                if each == _CONTRADICTED
                else ReadableClaim("", _values_from_json(each, values))
                for each, values in zip(
                    claims, value.get("values") or [None] * len(claims), strict=True
                )
            ],
            [
                ReadableSentence(UUID(conclusion_id), number, text, tuple(claims))
                for conclusion_id, number, text, claims in value["sentences"]
            ],
        )

    @cached_property
    def _of_conclusions(self) -> Mapping[UUID, Sequence[int]]:
        """The numbers of all claims that each conclusion cites; of the only one, of all claims."""
        if len({each.conclusion_id for each in self.sentences}) == 1:
            return {self.sentences[0].conclusion_id: range(1, len(self.claims) + 1)}
        cited: dict[UUID, set[int]] = {}
        for each in self.sentences:
            cited.setdefault(each.conclusion_id, set()).update(each.claims)
        return {conclusion_id: sorted(numbers) for conclusion_id, numbers in cited.items()}

    def before(self, place: int) -> int | None:
        """The place of the sentence before, of the same conclusion; None of its first."""
        same = (
            place and self.sentences[place - 1].conclusion_id == self.sentences[place].conclusion_id
        )
        return place - 1 if same else None

    def numbers_of(self, sentence: ReadableSentence) -> Sequence[int]:
        """The claims that a sentence is held against."""
        return sentence.claims or self._of_conclusions[sentence.conclusion_id]

    def parts(self, read: Container[int] = ()) -> list["Part"]:
        """Divides the material into requests of bounded size, each sentence together with all claims that it cites.

        A sentence without citations is in each part of its conclusion. Claims that no sentence cites follow. Without the
        sentences at the places that were `read`, and what only they cite.
        """
        if not read:
            return self._parts(MAX_LINES, MAX_PASSAGES_BYTES)
        unread = [place for place in range(len(self.sentences)) if place not in read]
        # A pronoun can refer to the sentence before.
        before = (self.before(place) for place in unread)
        places = sorted({*unread, *(place for place in before if place is not None)})
        sentences = [
            replace(each, claims=tuple(self.numbers_of(each)))
            for each in (self.sentences[place] for place in places)
        ]
        new_claims = (number for number, each in enumerate(self.claims, 1) if each.is_unread)
        cited = {number for each in sentences for number in each.claims}
        numbers = sorted(cited.union(new_claims))
        rest = replace(
            self,
            claims=[self.claims[number - 1] for number in numbers],
            sentences=[_renumbered(each, numbers) for each in sentences],
        )
        return [
            Part(part.material, [places[place] for place in part.places])
            for part in (rest.parts() if places or numbers else ())
        ]

    def halves(self) -> list["Part"]:
        """Parts of half the size; a single one if it cannot be divided."""
        lines = len(self.claims) + len(self.sentences)
        return self._parts(max(-(-lines // 2), 1), max(self._bytes(self.claims) // 2, 1))

    def _parts(self, max_lines: int, max_bytes: int) -> list["Part"]:
        parts: list[tuple[list[int], set[int]]] = []
        places: list[int] = []
        claims: set[int] = set()

        def add(of_sentence: Sequence[int], numbers: Sequence[int]) -> None:
            nonlocal places, claims
            larger = claims.union(numbers)
            lines = len(larger) + len(places) + len(of_sentence)
            if (places or claims) and (
                lines > max_lines or self._bytes(self.claims[n - 1] for n in larger) > max_bytes
            ):
                parts.append((places, claims))
                places, claims, larger = [], set(), set(numbers)
            places, claims = [*places, *of_sentence], larger

        for place, sentence in enumerate(self.sentences):
            if sentence.claims:
                add([place], sentence.claims)
        cited = {number for each in self.sentences for number in each.claims}
        for number in range(1, len(self.claims) + 1):
            if number not in cited:
                add([], [number])
        parts.append((places, claims))
        return [self._part(*each) for each in parts]

    @staticmethod
    def _bytes(claims: Iterable[ReadableClaim]) -> int:
        return sum(len(claim.passage.encode()) for claim in claims)

    def _part(self, cited: Sequence[int], claims: Set[int]) -> "Part":
        conclusions = {self.sentences[place].conclusion_id for place in cited}
        of_everything = [
            place
            for place, each in enumerate(self.sentences)
            if not each.claims
            and (
                each.conclusion_id in conclusions
                or not claims.isdisjoint(self.numbers_of(each))
                or not self.claims
            )
        ]
        places = sorted([*cited, *of_everything])
        numbers = sorted(claims)
        sentences = [self.sentences[place] for place in places]
        return Part(
            Material(
                [self.claims[number - 1] for number in numbers],
                [_renumbered(each, numbers) for each in sentences],
                self.now,
                self.standing,
                self.mission,
                self.shown,
            ),
            places,
        )


def _values_from_json(
    evidence: str, values: Mapping[str, Sequence[int]] | None
) -> Mapping[str | None, Sequence[UUID]]:
    ids = [UUID(each) for each in evidence.split()]
    if values is None:
        return {None: ids} if ids else {}
    return {name: [ids[place] for place in places] for name, places in values.items()}


def _renumbered(sentence: ReadableSentence, numbers: Sequence[int]) -> ReadableSentence:
    """The sentence among claims of which these are left, by their former numbers."""
    claims = tuple(numbers.index(each) + 1 for each in sentence.claims if each in numbers)
    return replace(sentence, claims=claims)


class Part(NamedTuple):
    material: Material
    places: Sequence[int]
    """The places of its sentences in the whole material."""


class ReadBy(NamedTuple):
    model: str
    call_id: UUID


@dataclass(frozen=True)
class ClaimFinding:
    verdict: Entailment
    reason: str = ""
    read_by: ReadBy | None = None
    """None: as all findings."""


@dataclass(frozen=True)
class SentenceFinding:
    kind: SentenceKind
    verdict: SentenceVerdict
    reason: str = ""
    read_by: ReadBy | None = None
    """None: as all findings."""

    def as_json(self) -> Json:
        by = self.read_by
        read_by = None if by is None else [by.model, str(by.call_id)]
        return {"kind": self.kind, "verdict": self.verdict, "reason": self.reason, "by": read_by}

    @classmethod
    def from_json(cls, value: Json) -> "SentenceFinding":
        """From `as_json`."""
        by = value["by"]
        return cls(
            SentenceKind(value["kind"]),
            SentenceVerdict(value["verdict"]),
            value["reason"],
            None if by is None else ReadBy(by[0], UUID(by[1])),
        )

    @property
    def is_failing(self) -> bool:
        """Whether a conclusion with this sentence is not stored."""
        return self.verdict in (
            SentenceVerdict.CONTRADICTED,
            SentenceVerdict.NOT_STATED,
            SentenceVerdict.DOES_NOT_FOLLOW,
        )


ReadValue = tuple[UUID, str | None]
"""A piece of evidence, and the name of its value: see `ReadableClaim.values`."""


@dataclass(frozen=True)
class Findings:
    """What a model found in `material`. What it gave no usable verdict on is missing."""

    material: Material
    model: str
    call_id: UUID
    prompt_version: int
    claims: Mapping[ReadValue, ClaimFinding] = field(default_factory=dict)
    sentences: Mapping[int, SentenceFinding] = field(default_factory=dict)
    """By the place of the sentence in `material`, from 0."""
    why_unread: str = ""
    """Why a part of it was not read."""

    def reader_of(self, finding: ClaimFinding | SentenceFinding) -> ReadBy:
        return finding.read_by or ReadBy(self.model, self.call_id)


@dataclass(frozen=True)
class NotRead:
    """Nothing was read."""

    why: str
    is_filtered: bool = False
    """Whether a filter of the provider refused the request or withheld its answer."""


def combined(
    material: Material, read: Sequence[tuple[Part, Findings | NotRead]]
) -> Findings | NotRead:
    """The findings on parts of `material` as one.

    A sentence that is in several parts, because it cites nothing, fails if one part contradicts it or all fail it. It counts
    as read if each part gives a verdict.
    """
    findings = [(part, each) for part, each in read if isinstance(each, Findings)]
    unread = [each for _, each in read if isinstance(each, NotRead)]
    if not findings:
        return unread[0]
    claims = {
        value: replace(found, read_by=each.reader_of(found))
        for _, each in findings
        for value, found in each.claims.items()
    }
    sentences: dict[int, SentenceFinding] = {}
    for place in range(len(material.sentences)):
        verdicts = [_verdict_in(part, each, place) for part, each in read if place in part.places]
        if (found := _joined(verdicts)) is not None:
            sentences[place] = found
    _, first = findings[0]
    why_unread = unread[0].why if unread else ""
    return replace(
        first, material=material, claims=claims, sentences=sentences, why_unread=why_unread
    )


class ReadSentences:
    """The sentences that a step has had read. One that is written again, with claims that show the same, is not read again,
    unless something else is shown with it, which may deny it.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], tuple[SentenceFinding, Set[str]]] = {}

    def of(self, material: Material) -> dict[int, SentenceFinding]:
        """The findings on sentences of `material`, by their places."""
        return {
            place: known[0]
            for place, sentence in enumerate(material.sentences)
            if sentence.basis
            and (known := self._found.get(_identity(material, place))) is not None
            and material.shown <= known[1]
        }

    def add(self, found: Findings) -> None:
        for place, finding in found.sentences.items():
            read_by = replace(finding, read_by=found.reader_of(finding))
            identity = _identity(found.material, place)
            self._found.setdefault(identity, (read_by, found.material.shown))


def _identity(material: Material, place: int) -> tuple[Any, ...]:
    """What a sentence says, also by the one before it, to which a pronoun can refer."""
    sentence = material.sentences[place]
    before = material.before(place)
    said_before = None if before is None else material.sentences[before].text
    return sentence.text, sentence.role, said_before, sentence.basis, tuple(material.standing)


def _joined(verdicts: Sequence[SentenceFinding | None]) -> SentenceFinding | None:
    given = [each for each in verdicts if each is not None]
    for each in given:
        if each.verdict is SentenceVerdict.CONTRADICTED:
            return each
    if not given or len(given) < len(verdicts):
        return None
    passing = [each for each in given if not each.is_failing]
    # The weakest of those that pass.
    return max(passing or given, key=lambda each: each.verdict is SentenceVerdict.PLAUSIBLE)


def _verdict_in(part: Part, read: Findings | NotRead, place: int) -> SentenceFinding | None:
    if isinstance(read, NotRead):
        return None
    found = read.sentences.get(part.places.index(place))
    return None if found is None else replace(found, read_by=read.reader_of(found))
