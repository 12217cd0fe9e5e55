"""How evidence comes to a node or edge: in one transaction with what follows from it, whoever else writes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, Self, TypeVar, cast
from uuid import UUID

from sqlalchemy import ColumnElement, Table, bindparam, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.errors import TransientError
from shared.graph.grounds import Found
from shared.graph.lines import utc
from shared.graph.proof import seals
from shared.graph.proof.change import Change, Held, change
from shared.graph.proof.fold import Claim
from shared.graph.refold import claims_of
from shared.graph.scope import Scope
from shared.store.tables import Evidence, Source
from shared.tools import Json

_TRIES: Final = 5
"""Others can make it, or merge it away, between a look and a write."""


# Whose agent it is has been seen to where the thing was locked or made.
_INSERT: Final = insert(cast(Table, Evidence.__table__)).on_conflict_do_nothing()

_RETRACTED: Final = (
    select(Source.id)
    .where(Source.id.in_(bindparam("pages", expanding=True)), Source.retracted_at.is_not(None))
    .limit(1)
)


class Thing(Protocol):
    """A node or edge, there or yet to be made."""

    @property
    def id(self) -> UUID: ...

    @property
    def column(self) -> str:
        """Of evidence, which names it."""
        ...

    async def locked(self, session: AsyncSession) -> "tuple[Self, Json] | None":
        """It as it is there, and its properties, its row locked; None where there is none.

        Its id may be another than the one it is made by: a merge may have brought it under this name.
        """
        ...

    async def make(self, session: AsyncSession, made: Change) -> bool:
        """False where somebody else has made it meanwhile."""
        ...

    async def bring_up(self, session: AsyncSession, changed: Change) -> None: ...


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
) -> Added:
    """Makes the thing where it is not there, and writes the evidence. Nothing is written where `check` refuses.

    What is written already stays as it is.
    """
    made = change({}, (), _claims(thing, found))
    held = await made_or_locked(session, thing, made, check)
    if held is None:
        await _write(session, scope, thing, found)
        return Added(thing.id, True, made)
    thing, properties = held
    # A statement of its own: what others had not committed before the lock was had is only seen by the next.
    known = await claims_of(session, _of(thing))
    changed = change(properties, known, _claims(thing, found))
    check(changed.properties)
    await thing.bring_up(session, changed)
    await _write(session, scope, thing, found)
    return Added(thing.id, False, changed)


T = TypeVar("T", bound=Thing)


async def made_or_locked(
    session: AsyncSession, thing: T, made: Change, check: Callable[[Json], None]
) -> tuple[T, Json] | None:
    """None where it was made; else it as it is there, with its properties, locked."""
    for _ in range(_TRIES):
        if held := await thing.locked(session):
            return held
        check(made.properties)
        if await thing.make(session, made):
            return None
    raise TransientError(f"{thing.id} comes and goes while it is written", counts=False)


def _claims(thing: Thing, found: Sequence[Found]) -> list[Claim]:
    return [each.claim(thing.id) for each in found]


def _of(thing: Thing) -> ColumnElement[bool]:
    of_thing: ColumnElement[bool] = getattr(Evidence, thing.column) == thing.id
    return of_thing


def _held(held: Held) -> Json:
    return {"held": held.value, "asOf": None if held.as_of is None else utc(held.as_of)}


async def _write(session: AsyncSession, scope: Scope, thing: Thing, found: Sequence[Found]) -> None:
    rows = [_row(scope, thing, each) for each in found]
    once = {row["id"]: row for row in rows}
    await session.execute(_INSERT, list(once.values()))
    # The pages are held from here on: a retraction that comes now waits for this and finds it, and one that came since
    # the pages were looked up is seen here.
    pages = list({each.page.id for each in found})
    if await session.scalar(_RETRACTED, {"pages": pages}):
        raise TransientError("a page was retracted while it was quoted", counts=False)


def _row(scope: Scope, thing: Thing, found: Found) -> dict[str, Any]:
    evidence_id = found.evidence_id(thing.id)
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
