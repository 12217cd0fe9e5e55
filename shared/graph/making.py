"""A node or edge that was not there, its names and what it rests on: written in one statement, all of it or nothing.

It sees what was committed when it began, which is after the turn was had (see `turns`). A page that is retracted by then
is seen; the worker that follows a later retraction up waits for this transaction.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import TextClause, text
from sqlalchemy.dialects.postgresql import dialect
from sqlalchemy.ext.asyncio import AsyncSession

from shared.errors import TransientError
from shared.graph.scope import OWNED_SQL
from shared.store.tables import Evidence, GraphName
from shared.store.tables.base import Base

Rows = Sequence[Mapping[str, Any]]

_IS_RETRACTED: Final = (
    "exists (select from sources where id = any(:pages) and retracted_at is not null)"
)
_MADE: Final = {
    "id": ":id",
    "agent_id": OWNED_SQL,
    "type": ":type",
    "properties": "cast(:properties as jsonb)",
    "seal": ":seal",
    "iteration_id": "cast(:iteration_id as uuid)",
    "step_id": "cast(:step_id as uuid)",
}


def _insert(table: type[Base], given: str, where: str) -> str:
    """Of the rows that `given` names, which are JSON; the database's own defaults fill what they never say."""
    columns = [each for each in table.__table__.c if each.server_default is None]
    listed = ", ".join(each.name for each in columns)
    typed = ", ".join(f"{each.name} {each.type.compile(dialect())}" for each in columns)
    return (
        f"insert into {table.__tablename__} ({listed}) select {listed}"
        f" from jsonb_to_recordset(cast(:{given} as jsonb)) as given ({typed}) where {where}"
    )


def _made(table: str, columns: Mapping[str, str], where: str) -> str:
    values = {**_MADE, **columns}
    return (
        f"insert into {table} ({', '.join(values)}) select {', '.join(values.values())}"
        # The id follows from what makes it one of a kind, so two unique keys clash at once; "on conflict do update" watches
        # only one of them and fails on the other when two workers insert at the same moment. "Do nothing" watches both.
        f" where {where} on conflict do nothing returning id"
    )


_TAKEN: Final = (
    _insert(GraphName, "names", f"not {_IS_RETRACTED}")
    # In one order, whoever takes names.
    + ' order by type collate "C", key collate "C" on conflict do nothing returning key'
)
_BORNE_OUT: Final = (
    _insert(Evidence, "evidence", "exists (select from made)") + " on conflict do nothing"
)
_TOLD: Final = f"select exists (select from made) as is_made, {_IS_RETRACTED} as is_retracted"
_ALL_TAKEN: Final = "(select count(*) from taken) = jsonb_array_length(cast(:names as jsonb))"

NODE: Final = text(
    f"with taken as ({_TAKEN}),"
    f" made as ({_made('graph_nodes', {'name': ':name'}, f'{_ALL_TAKEN} and not {_IS_RETRACTED}')}),"
    f" borne_out as ({_BORNE_OUT}) {_TOLD}"
)
"""Where one of several names cannot be taken, those that were must be given back by whoever asked."""
EDGE: Final = text(
    "with made as ("
    + _made(
        "graph_edges",
        {"source_id": ":source_id", "target_id": ":target_id"},
        f"not {_IS_RETRACTED}",
    )
    + f"), borne_out as ({_BORNE_OUT}) {_TOLD}"
)
_ADD: Final = text(
    f"with borne_out as ({_insert(Evidence, 'evidence', f'not {_IS_RETRACTED}')}"
    " on conflict do nothing)"
    f" select {_IS_RETRACTED} as is_retracted"
)


async def make(
    session: AsyncSession,
    statement: TextClause,
    thing: Mapping[str, Any],
    evidence: Rows,
    names: Rows = (),
) -> bool:
    """False where it is there already, or a name of it is another's. Raises TransientError where a page was retracted."""
    given = {**thing, **_of(evidence), "properties": _json(thing["properties"])}
    if statement is NODE:
        given["names"] = _json(names)
    told = (await session.execute(statement, given)).one()
    _refuse_retracted(told.is_retracted)
    is_made: bool = told.is_made
    return is_made


async def add(session: AsyncSession, evidence: Rows) -> None:
    """Of what is there. What is written already stays as it is. Raises TransientError where a page was retracted."""
    _refuse_retracted((await session.execute(_ADD, _of(evidence))).scalar_one())


def _of(evidence: Rows) -> dict[str, Any]:
    return {
        "evidence": _json(evidence),
        "pages": list({row["source_id"] for row in evidence}),
    }


def _refuse_retracted(is_retracted: bool) -> None:
    if is_retracted:
        raise TransientError("a page was retracted while it was quoted", counts=False)


def _json(value: Any) -> str:
    return json.dumps(value, default=_spelled)


def _spelled(value: Any) -> str:
    """As PostgreSQL reads it."""
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    return value.isoformat() if isinstance(value, datetime) else str(value)
