"""How evidence comes to a node or edge: in one transaction with what follows from it, whoever else writes."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, Protocol, Self, TypeVar
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.errors import RetrySoonError
from shared.graph.grounds import Found
from shared.graph.lines import utc
from shared.graph.making import Rows
from shared.graph.proof import seals
from shared.graph.proof.change import Change, Held, change
from shared.graph.proof.fold import Claim
from shared.graph.refold import claims_of
from shared.graph.scope import Scope
from shared.tools import Json

_TRIES: Final = 5
"""Others can make it, or merge it away, between a look and a write."""


class Thing(Protocol):
    """A node or edge, there or yet to be made."""

    @property
    def id(self) -> UUID: ...

    @property
    def column(self) -> str:
        """Of evidence, which names it."""
        ...

    async def locked(self, session: AsyncSession) -> "Locked[Self] | None":
        """It as it is there; None where there is none.

        Its id may be another than the one it is made by: a merge may have brought it under this name.
        """
        ...

    def seal(self, changed: Change) -> bytes:
        """That it has by what it is then."""
        ...

    def broken(self, seal: bytes) -> Self:
        """With a seal that does not fit, to be kept."""
        ...

    async def make(self, session: AsyncSession, made: Change, evidence: Rows) -> bool:
        """It and its evidence; False where somebody else has made it meanwhile."""
        ...

    async def bring_up(self, session: AsyncSession, changed: Change, evidence: Rows) -> None:
        """It is there and locked."""
        ...


@dataclass(frozen=True)
class Added:
    """What became of a node or edge that was given."""

    id: UUID
    created: bool
    change: Change

    @property
    def told(self) -> Json:
        """As a tool answers it, without the id: what gave way and what did not, where anything did."""
        both = {"superseded": self.change.superseded, "kept": self.change.kept}
        return {
            "created": self.created,
            **{
                word: {name: _held(held) for name, held in of_which.items()}
                for word, of_which in both.items()
                if of_which
            },
        }


async def add_evidence(
    session: AsyncSession,
    scope: Scope,
    thing: Thing,
    found: Sequence[Found],
    check: Callable[[Json], None],
    *,
    is_there: bool,
) -> Added:
    """Makes the thing where it is not there, and writes the evidence. Nothing is written where `check` refuses.

    What is written already stays as it is. `is_there` is what was seen last: others may have written meanwhile.
    """
    new = partial(make, session, scope, thing, found, check)
    held = await made_or_locked(session, thing, new, is_there=is_there)
    if isinstance(held, Added):
        return held
    # A statement of its own: what others had not committed before the lock was had is only seen by the next.
    known = await claims_of(session, held.thing.column, held.thing.id)
    thing = held.as_sealed(Change(held.properties, tuple(each.evidence_id for each in known)))
    claims = _claims(thing, found)
    changed = change(held.properties, known, claims)
    check(changed.properties)
    await thing.bring_up(session, changed, _rows(scope, thing, found, claims))
    return Added(thing.id, False, changed)


async def make(
    session: AsyncSession,
    scope: Scope,
    thing: Thing,
    found: Sequence[Found],
    check: Callable[[Json], None],
) -> Added | None:
    """As `add_evidence`, of what is not there; None where it is there meanwhile."""
    claims = _claims(thing, found)
    made = change({}, (), claims)
    check(made.properties)
    is_made = await thing.make(session, made, _rows(scope, thing, found, claims))
    return Added(thing.id, True, made) if is_made else None


T = TypeVar("T", bound=Thing)
M = TypeVar("M")


@dataclass(frozen=True)
class Locked(Generic[T]):
    """A thing that is there, its row locked."""

    thing: T
    properties: Json
    seal: bytes | None

    def as_sealed(self, was: Change) -> T:
        """The thing, which keeps its seal where that is not of what it was: sealed anew, what was changed would be lost."""
        if self.seal is None or self.seal == self.thing.seal(was):
            return self.thing
        return self.thing.broken(self.seal)


async def made_or_locked(
    session: AsyncSession, thing: T, new: Callable[[], Awaitable[M | None]], *, is_there: bool
) -> M | Locked[T]:
    """What `new` gives, which makes the thing, or None where others have made it; else it as it is there."""
    for _ in range(_TRIES):
        if is_there and (held := await thing.locked(session)):
            return held
        if (made := await new()) is not None:
            return made
        is_there = True
    raise RetrySoonError(f"{thing.id} comes and goes while it is written")


def _claims(thing: Thing, found: Sequence[Found]) -> list[Claim]:
    return [each.claim(thing.id) for each in found]


def _held(held: Held) -> Json:
    return {"held": held.value, "asOf": None if held.as_of is None else utc(held.as_of)}


def _rows(scope: Scope, thing: Thing, found: Sequence[Found], claims: Sequence[Claim]) -> Rows:
    """Of evidence, each once."""
    by_id = {claim.evidence_id: each for claim, each in zip(claims, found, strict=True)}
    return [_row(scope, thing, evidence_id, each) for evidence_id, each in by_id.items()]


def _row(scope: Scope, thing: Thing, evidence_id: UUID, found: Found) -> dict[str, Any]:
    sealed: dict[str, Any] = {
        "agent_id": scope.agent_id,
        "source_id": found.page.id,
        "first_byte": found.span.first,
        "end_byte": found.span.end,
        "quote_sha256": found.quote_sha256,
        "claims": found.claims,
        "valid_from": found.valid_from,
        "valid_to": found.valid_to,
        "as_of": found.as_of,
        "learned_at": found.learned_at,
    }
    return {
        **sealed,
        "id": evidence_id,
        thing.column: thing.id,
        "step_id": scope.step_id,
        "seal": seals.of_evidence(evidence_id=evidence_id, thing_id=thing.id, **sealed),
    }
