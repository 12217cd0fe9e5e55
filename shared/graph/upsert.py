"""Upserts: evidence for a node or edge, in one transaction with what follows from it."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, Generic, Protocol, Self, TypeVar
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.statements import Direct, spelled
from shared.database.tables import Evidence, GraphName
from shared.database.tables.base import Base
from shared.errors import RetrySoonError
from shared.graph.projection import claims_of
from shared.graph.prompt_format import utc
from shared.graph.provenance import integrity
from shared.graph.provenance.claims import Change, Claim, Held, change
from shared.graph.provenance.evidence import Found
from shared.graph.scope import OWNED_SQL, Scope
from shared.tools import Json

Rows = Sequence[Mapping[str, Any]]

_IS_RETRACTED: Final = "exists (select from retracted)"
_MADE: Final = {
    "id": ":id",
    "agent_id": OWNED_SQL,
    "type": ":type",
    "properties": "cast(:properties as jsonb)",
    "seal": ":seal",
    "iteration_id": "cast(:iteration_id as uuid)",
    "step_id": "cast(:step_id as uuid)",
}
_ENDS: Final = {"source_id": ":source_id", "target_id": ":target_id"}


def _insert(table: type[Base], given: str, where: str) -> str:
    """Of the rows that `given` names, which are JSON; the database's own defaults fill what they never say."""
    name = table.__tablename__
    listed = ", ".join(each.name for each in table.__table__.c if each.server_default is None)
    rows = f"jsonb_populate_recordset(cast(null as {name}), cast(:{given} as jsonb))"
    return f"insert into {name} ({listed}) select {listed} from {rows} where {where}"


def _made(table: str, columns: Mapping[str, str], where: str) -> str:
    values = {**_MADE, **columns}
    return (
        f"insert into {table} ({', '.join(values)}) select {', '.join(values.values())}"
        # The id follows from what makes it one of a kind, so two unique keys clash at once; "on conflict do update" watches
        # only one of them and fails on the other when two workers insert at the same moment. "Do nothing" watches both.
        f" where {where} on conflict do nothing returning id"
    )


def _brought_up(table: str) -> str:
    return (
        f"update {table} set properties = cast(:properties as jsonb), seal = :seal,"
        # What is added is of a page that is not retracted.
        " unsupported_since = null, updated_at = clock_timestamp()"
        f" where agent_id = {OWNED_SQL} and id = :id and not {_IS_RETRACTED} returning id"
    )


# In one order, whoever takes names.
_IN_ORDER: Final = 'order by type collate "C", key collate "C" on conflict do nothing'
_TAKE: Final = Direct(f"{_insert(GraphName, 'names', 'true')} {_IN_ORDER}")
_TAKEN: Final = f"{_insert(GraphName, 'names', f'not {_IS_RETRACTED}')} {_IN_ORDER} returning key"
_ALL_TAKEN: Final = "(select count(*) from taken) = jsonb_array_length(cast(:names as jsonb))"


def _written(thing: str, before: str = "") -> str:
    """To be `spelled` with the pages."""
    # Evidence that is written already stays as it is.
    borne_out = (
        f"{_insert(Evidence, 'evidence', 'exists (select from thing)')} on conflict do nothing"
    )
    return (
        "with retracted as (select 1 from sources where id in ({values}) and retracted_at is not null),"
        f" {before}thing as ({thing}), borne_out as ({borne_out})"
        f" select exists (select from thing) as is_written, {_IS_RETRACTED} as is_retracted"
    )


NEW_NODE: Final = _written(
    _made("graph_nodes", {"name": ":name"}, f"{_ALL_TAKEN} and not {_IS_RETRACTED}"),
    f"taken as ({_TAKEN}), ",
)
"""Where one of several names cannot be taken, those that were must be given back by whoever asked."""
NEW_EDGE: Final = _written(_made("graph_edges", _ENDS, f"not {_IS_RETRACTED}"))
NODE: Final = _written(_brought_up("graph_nodes"))
"""Which is there, and locked."""
EDGE: Final = _written(_brought_up("graph_edges"))


async def write(
    session: AsyncSession,
    statement: str,
    thing: Mapping[str, Any],
    evidence: Rows,
    names: Rows = (),
) -> bool:
    """False where what is new is there already, or a name of it is another's.

    Raises RetrySoonError where a page was retracted.
    """
    given = {
        **thing,
        "properties": _json(thing["properties"]),
        "evidence": _json(evidence),
        "names": _json(names),
    }
    direct, pages = spelled(statement, "page", list({row["source_id"] for row in evidence}))
    told = await direct.row(session, {**given, **pages})
    if told.is_retracted:
        raise RetrySoonError("a page was retracted while it was quoted")
    is_written: bool = told.is_written
    return is_written


async def take(session: AsyncSession, names: Rows) -> bool:
    """False where another has one of them; the others must be given back then."""
    return await _TAKE.run(session, {"names": _json(names)}) == len(names)


async def bring_up(
    session: AsyncSession, statement: str, thing: Mapping[str, Any], evidence: Rows
) -> None:
    """As `write`, of what is there and locked. Raises RuntimeError where it is not: its evidence is not written then."""
    if not await write(session, statement, thing, evidence):
        raise RuntimeError(
            f"{thing['id']} is locked, and yet agent {thing['of_agent']} has no such row; see who deletes without a turn"
        )


def _json(value: Any) -> str:
    return json.dumps(value, default=_spelled)


def _spelled(value: Any) -> str:
    """As PostgreSQL reads it."""
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    return value.isoformat() if isinstance(value, datetime) else str(value)


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
        "seal": integrity.of_evidence(evidence_id=evidence_id, thing_id=thing.id, **sealed),
    }
