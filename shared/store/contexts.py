"""What phases are shown of a graph: its words stand once, and the runs of phases refer to them by their hash.

A run's request is kept apart: `{"told": [before, after], "tools": [...]}`, between whose two parts the context belongs.
Nothing else of the request changes, and whoever reads it is given it whole.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final, cast
from uuid import UUID

from sqlalchemy import CTE, Table, Text, bindparam, func, select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.tables import Context, Interaction

_Json = dict[str, Any]

_TABLE: Final = cast(Table, Context.__table__)
_TOLD: Final = "told"
"""By this key a request is known that is kept apart. It has no `messages`: who does not know of it cannot misread it."""


def keeping(run: CTE) -> CTE:
    """Part of a statement that writes `run`, and is given `context`: where it writes a row that names one, the words are
    written too if they are not there.

    Waits for whoever writes the same at the moment, until that is committed.
    """
    return (
        insert(_TABLE)
        .from_select(
            ["agent_id", "sha256", "text", "created_at"],
            select(
                run.c.agent_id,
                run.c.context_sha256,
                bindparam("context", type_=Text),
                # As old as the transaction that has looked at the graph: what was written while it looked is newer.
                func.transaction_timestamp(),
            ).where(run.c.context_sha256.is_not(None)),
        )
        .on_conflict_do_nothing(index_elements=[_TABLE.c.agent_id, _TABLE.c.sha256])
        .cte("kept")
    )


def apart(request: _Json, context: str) -> tuple[_Json, bytes | None]:
    """`request` without `context`, and its hash; as it is, and None, where the words do not stand in its one message."""
    if not context:
        return request, None
    (message,) = request["messages"]
    before, found, after = message["content"].partition(context)
    if not found:
        return request, None
    return {**_others(request), _TOLD: [before, after]}, sha256(context.encode()).digest()


def is_apart(request: _Json) -> bool:
    return _TOLD in request


def whole(request: _Json, context: str) -> _Json:
    """What `apart` was given."""
    before, after = request[_TOLD]
    content = f"{before}{context}{after}"
    return {**_others(request), "messages": [{"role": "user", "content": content}]}


def _others(request: _Json) -> _Json:
    """All that a request says beside its messages."""
    return {key: value for key, value in request.items() if key not in ("messages", _TOLD)}


async def requests(session: AsyncSession, runs: Iterable[Interaction]) -> dict[UUID, _Json]:
    """Each run's request, whole, by the run's id."""
    runs = list(runs)
    texts = await _texts(session, [run for run in runs if is_apart(run.request)])
    return {
        run.id: whole(run.request, texts[run.agent_id, run.context_sha256])
        if is_apart(run.request)
        else run.request
        for run in runs
    }


async def _texts(
    session: AsyncSession, runs: Iterable[Interaction]
) -> dict[tuple[UUID, bytes | None], str]:
    named = {(run.agent_id, run.context_sha256) for run in runs}
    if not named:
        return {}
    rows = await session.execute(
        select(Context.agent_id, Context.sha256, Context.text).where(
            tuple_(Context.agent_id, Context.sha256).in_(named)
        )
    )
    return {(row.agent_id, row.sha256): row.text for row in rows}
