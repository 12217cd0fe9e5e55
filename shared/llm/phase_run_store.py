"""Stores phase runs and the contexts that they share."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, cast
from uuid import UUID

from sqlalchemy import (
    CTE,
    DateTime,
    Table,
    Text,
    and_,
    bindparam,
    exists,
    func,
    literal,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import ids
from shared.database.statements import BoundQuery, CompiledStatement, RoundTrip
from shared.database.tables import Context, Interaction, Step
from shared.enums import Phase
from shared.workflow.leases import Lease

_Json = dict[str, Any]

_CONTEXTS: Final = cast(Table, Context.__table__)
_SPLIT_KEY: Final = "context_parts"
"""Key of a request whose context is stored separately. Such a request has no `messages`, so it cannot be misread."""


def context_cte(run: CTE) -> CTE:
    """Returns a CTE that inserts the parameter `context`, unless it exists, if the CTE `run` wrote a row that refers to it.

    Waits for a concurrent transaction that inserts the same context.
    """
    return (
        insert(_CONTEXTS)
        .from_select(
            ["agent_id", "sha256", "text", "created_at"],
            select(
                run.c.agent_id,
                run.c.context_sha256,
                bindparam("context", type_=Text),
                func.coalesce(
                    bindparam("context_read_at", type_=DateTime(timezone=True)),
                    func.transaction_timestamp(),
                ),
            ).where(run.c.context_sha256.is_not(None)),
        )
        .on_conflict_do_nothing(index_elements=[_CONTEXTS.c.agent_id, _CONTEXTS.c.sha256])
        .cte("kept")
    )


def split_context(request: _Json, context: str) -> tuple[_Json, bytes | None]:
    """Returns `request` without `context`, and its hash; unchanged and None if its message does not contain `context`."""
    if not context:
        return request, None
    (message,) = request["messages"]
    head, separator, tail = message["content"].partition(context)
    if not separator:
        return request, None
    return {**_without_messages(request), _SPLIT_KEY: [head, tail]}, sha256(
        context.encode()
    ).digest()


def is_split(request: _Json) -> bool:
    return _SPLIT_KEY in request


def restore_request(request: _Json, context: str) -> _Json:
    """Restores the request from the result of `split_context`."""
    head, tail = request[_SPLIT_KEY]
    content = f"{head}{context}{tail}"
    return {**_without_messages(request), "messages": [{"role": "user", "content": content}]}


def _without_messages(request: _Json) -> _Json:
    """Returns the fields of a request besides its messages."""
    return {key: value for key, value in request.items() if key not in ("messages", _SPLIT_KEY)}


async def load_requests(session: AsyncSession, runs: Iterable[Interaction]) -> dict[UUID, _Json]:
    """Returns the complete request of each run, by run id."""
    runs = list(runs)
    texts = await _context_texts(session, [run for run in runs if is_split(run.request)])
    return {
        run.id: restore_request(run.request, texts[run.agent_id, run.context_sha256])
        if is_split(run.request)
        else run.request
        for run in runs
    }


async def _context_texts(
    session: AsyncSession, runs: Iterable[Interaction]
) -> dict[tuple[UUID, bytes | None], str]:
    keys = {(run.agent_id, run.context_sha256) for run in runs}
    if not keys:
        return {}
    rows = await session.execute(
        select(Context.agent_id, Context.sha256, Context.text).where(
            tuple_(Context.agent_id, Context.sha256).in_(keys)
        )
    )
    return {(row.agent_id, row.sha256): row.text for row in rows}


_TABLE: Final = cast(Table, Interaction.__table__)
_COLUMNS: Final = (
    "id", "agent_id", "iteration_id", "step_id", "phase", "model", "system_prompt", "request",
    "context_sha256",
)  # fmt: skip
_RESTARTED_COLUMNS: Final = ("model", "system_prompt", "request", "context_sha256")
_INSERT: Final = insert(_TABLE).values({name: bindparam(name) for name in _COLUMNS})
_INSERT_OR_RESTART: Final = _INSERT.on_conflict_do_update(
    index_elements=[_TABLE.c.id],
    set_={name: _INSERT.excluded[name] for name in _RESTARTED_COLUMNS},
    where=and_(
        _TABLE.c.events == literal([], JSONB),
        exists().where(
            Step.id == bindparam("of_step"),
            Step.retried_epoch > 0,
            Step.retried_epoch == bindparam("epoch_before"),
        ),
    ),
).returning(_TABLE)
_INSERT_FIRST: Final = CompiledStatement(_INSERT.returning(_TABLE.c.id))
_BEGIN: Final = CompiledStatement(_INSERT_OR_RESTART)
_FIRST_WITH_CONTEXT: Final = _INSERT.returning(_TABLE).cte("run")
_INSERT_FIRST_WITH_CONTEXT: Final = CompiledStatement(
    select(_FIRST_WITH_CONTEXT.c.id).add_cte(context_cte(_FIRST_WITH_CONTEXT))
)
_WITH_CONTEXT: Final = _INSERT_OR_RESTART.cte("run")
# A separate statement: services without shared contexts have no right to write them, not even unused in a statement.
_BEGIN_WITH_CONTEXT: Final = CompiledStatement(
    select(_WITH_CONTEXT).add_cte(context_cte(_WITH_CONTEXT))
)
_SELECT: Final = CompiledStatement(select(_TABLE).where(_TABLE.c.id == bindparam("id")))
_APPEND_EVENTS: Final = CompiledStatement(
    """
    update llm_interactions
    set events = events || (
          select coalesce(jsonb_agg(event order by place), '[]')
          from jsonb_array_elements(cast(:events as jsonb)) with ordinality as input (event, place)
          where not events @> jsonb_build_array(event)
        ),
        completed_at = case when :is_complete then clock_timestamp() else completed_at end
    where id = :of_interaction
    """
)


class NewInteraction:
    """A phase of a step that is about to begin.

    If the request contains `context`, that text is stored once for all runs. Changes of the graph after `context_read_at`,
    by default the beginning of the transaction, are not in it.
    """

    def __init__(
        self,
        lease: Lease,
        phase: Phase,
        *,
        model: str,
        system_prompt: str,
        request: _Json,
        context: str = "",
        context_read_at: datetime | None = None,
    ) -> None:
        short, digest = split_context(request, context)
        self.lease = lease
        self.id = ids.interaction_id(lease.step_id, phase)
        self.request = request
        self.has_context = digest is not None
        self.params: Mapping[str, Any] = {
            "id": self.id,
            "agent_id": lease.agent_id,
            "iteration_id": lease.iteration_id,
            "step_id": lease.step_id,
            "phase": phase,
            "model": model,
            "system_prompt": system_prompt,
            "request": short,
            "context_sha256": digest,
            "context": context,
            "context_read_at": context_read_at,
        }

    @property
    def record(self) -> Interaction:
        """The interaction with its complete request."""
        columns = {name: self.params[name] for name in _COLUMNS}
        return Interaction(**{**columns, "request": self.request, "events": []})

    def write(self, trip: RoundTrip) -> None:
        """Creates the interaction of a step that no worker has had before."""
        statement = _INSERT_FIRST_WITH_CONTEXT if self.has_context else _INSERT_FIRST
        trip.ask(BoundQuery(statement, self.params, lambda _: None))


async def open_or_resume(session: AsyncSession, interaction: NewInteraction) -> Interaction:
    """Creates the interaction, or returns the existing one with its original request.

    An interaction without an answer is overwritten if the user requested a retry of the step since: the model name or the
    prompt may have been corrected. After a crash it is not overwritten, because its call may be in flight.
    """
    lease = interaction.lease
    params = {
        **interaction.params,
        "of_step": lease.step_id,
        "epoch_before": lease.epoch - 1,
    }
    begin = _BEGIN_WITH_CONTEXT if interaction.has_context else _BEGIN
    record = await begin.row(session, params)
    if record is None:
        return await _load_existing(session, interaction.id)
    return Interaction(**{**record._asdict(), "request": interaction.request})


async def _load_existing(session: AsyncSession, interaction_id: UUID) -> Interaction:
    row = await _SELECT.row(session, {"id": interaction_id})
    interaction = Interaction(**row._asdict())
    interaction.request = (await load_requests(session, [interaction]))[interaction.id]
    return interaction


def append_events(
    interaction: Interaction, events: Sequence[dict[str, Any]], is_complete: bool
) -> BoundQuery[None]:
    """Returns the query that appends `events` in order. It skips events that an earlier, possibly lost, commit appended."""
    params = {
        "of_interaction": interaction.id,
        "events": json.dumps(events),
        "is_complete": is_complete,
    }
    return BoundQuery(_APPEND_EVENTS, params, lambda _: None)
