"""What a model reads before a conclusion is stored, and what it finds. Pure data, between the graph and the model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from shared.enums import Entailment, SentenceKind, SentenceVerdict
from shared.tools import Json

MAX_REASON_CHARS = 300
"""Of a verdict."""
_FAILED = "failed"
MAX_CLAIMS = 20
"""Claims of one request that are compared with their pages. Further ones stay unread."""


@dataclass(frozen=True)
class ReadableClaim:
    """What an element says. Its number in the request is its place in `Material.claims`, from 1."""

    text: str
    evidence: tuple[UUID, ...] = ()
    """That of one page which states it. Empty if it is not compared with a page: it was before, or it is the text of an
    analysis.
    """
    passage: str = ""
    """The quotes in » «, with the sentences beside them."""
    page: str = ""
    """Title and date of its page."""
    has_failed: bool = False
    """Whether a model found before that no page says it."""


@dataclass(frozen=True)
class ReadableSentence:
    """A sentence of a conclusion, with the numbers of the claims that it is held against."""

    conclusion_id: UUID
    number: int
    """Within its conclusion, from 1."""
    text: str
    claims: tuple[int, ...]


@dataclass(frozen=True)
class Material:
    """What one request has a model read. Sentences are numbered after the claims."""

    claims: Sequence[ReadableClaim] = ()
    sentences: Sequence[ReadableSentence] = ()

    def as_json(self) -> Json:
        """Everything that the verdicts need, for a run that is resumed; the request has the texts of claims."""
        return {
            "claims": [
                _FAILED if claim.has_failed else " ".join(map(str, claim.evidence))
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
        return cls(
            [
                ReadableClaim("", has_failed=True)
                if each == _FAILED
                else ReadableClaim("", tuple(map(UUID, each.split())))
                for each in value["claims"]
            ],
            [
                ReadableSentence(UUID(conclusion_id), number, text, tuple(claims))
                for conclusion_id, number, text, claims in value["sentences"]
            ],
        )


@dataclass(frozen=True)
class ClaimFinding:
    verdict: Entailment
    reason: str = ""


@dataclass(frozen=True)
class SentenceFinding:
    kind: SentenceKind
    verdict: SentenceVerdict
    reason: str = ""

    @property
    def is_failing(self) -> bool:
        """Whether a conclusion with this sentence is not stored."""
        return self.verdict in (
            SentenceVerdict.CONTRADICTED,
            SentenceVerdict.NOT_STATED,
            SentenceVerdict.DOES_NOT_FOLLOW,
        )


@dataclass(frozen=True)
class Findings:
    """What a model found in `material`. What it gave no usable verdict on is missing."""

    material: Material
    model: str
    call_id: UUID
    prompt_version: int
    claims: Mapping[UUID, ClaimFinding] = field(default_factory=dict)
    """By evidence."""
    sentences: Mapping[int, SentenceFinding] = field(default_factory=dict)
    """By the place of the sentence in `material`, from 0."""


@dataclass(frozen=True)
class NotRead:
    """Nothing was read."""

    why: str
