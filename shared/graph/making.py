"""A node or edge, its names and what it rests on: written in one statement, all of it or nothing.

It sees what was committed when it began, which is after the turn was had (see `turns`). A page that is retracted by then
is seen; the worker that follows a later retraction up waits for this transaction.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy.ext.asyncio import AsyncSession

from shared.errors import RetrySoonError
from shared.graph.scope import OWNED_SQL
from shared.graph.spelled import spelled
from shared.store.direct import Direct
from shared.store.tables import Evidence, GraphName
from shared.store.tables.base import Base

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
