"""Phase runs and shared contexts in the database."""

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, Final, cast
from uuid import UUID

from sqlalchemy import CTE, Table, Text, and_, bindparam, exists, func, literal, select, tuple_
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import ids
from shared.database.statements import Asked, Direct
from shared.database.tables import Context, Interaction, Step
from shared.enums import Phase
from shared.workflow.leases import Lease

_Json = dict[str, Any]

_CONTEXTS: Final = cast(Table, Context.__table__)
_TOLD: Final = "told"
"""By this key a request is known that is kept apart. It has no `messages`: who does not know of it cannot misread it."""


def keeping(run: CTE) -> CTE:
    """Part of a statement that writes `run`, and is given `context`: where it writes a row that names one, the words are
    written too if they are not there.

    Waits for whoever writes the same at the moment, until that is committed.
    """
    return (
        insert(_CONTEXTS)
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
        .on_conflict_do_nothing(index_elements=[_CONTEXTS.c.agent_id, _CONTEXTS.c.sha256])
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


_TABLE: Final = cast(Table, Interaction.__table__)
_GIVEN: Final = (
    "id", "agent_id", "iteration_id", "step_id", "phase", "model", "system_prompt", "request",
    "context_sha256",
)  # fmt: skip
_BEGUN_ANEW: Final = ("model", "system_prompt", "request", "context_sha256")
_NEW: Final = insert(_TABLE).values({name: bindparam(name) for name in _GIVEN})
_BEGUN: Final = _NEW.on_conflict_do_update(
    index_elements=[_TABLE.c.id],
    set_={name: _NEW.excluded[name] for name in _BEGUN_ANEW},
    where=and_(
        _TABLE.c.events == literal([], JSONB),
        exists().where(
            Step.id == bindparam("of_step"),
            Step.retried_epoch > 0,
            Step.retried_epoch == bindparam("epoch_before"),
        ),
    ),
).returning(_TABLE)
_BEGIN: Final = Direct(_BEGUN)
_IN_CONTEXT: Final = _BEGUN.cte("begun")
# Apart: who is never told what others are told too may not write contexts, nor run what might.
_BEGIN_IN_CONTEXT: Final = Direct(select(_IN_CONTEXT).add_cte(keeping(_IN_CONTEXT)))
_FIND: Final = Direct(select(_TABLE).where(_TABLE.c.id == bindparam("id")))
_TELL: Final = Direct(
    """
    update llm_interactions
    set events = events || (
          select coalesce(jsonb_agg(event order by place), '[]')
          from jsonb_array_elements(cast(:events as jsonb)) with ordinality as told (event, place)
          where not events @> jsonb_build_array(event)
        ),
        completed_at = case when :is_complete then clock_timestamp() else completed_at end
    where id = :of_interaction
    """
)


async def find(session: AsyncSession, lease: Lease, phase: Phase) -> Interaction | None:
    return await session.get(Interaction, ids.interaction_id(lease.step_id, phase))


async def open_or_resume(
    session: AsyncSession,
    lease: Lease,
    phase: Phase,
    *,
    model: str,
    system_prompt: str,
    request: dict[str, Any],
    context: str = "",
) -> Interaction:
    """The step's interaction in `phase`: the one begun before, with what it was told then, or a new one.

    One that never got an answer begins anew where a person has asked for the step's retry since: what was wrong with
    the model's name or the prompt may have been mended. After a crash it does not: its call may be in flight.

    The words of `context`, where they stand in the request, are kept once for all runs that were told them; what is given
    back has its request whole.
    """
    short, digest = apart(request, context)
    row = {
        "id": ids.interaction_id(lease.step_id, phase),
        "agent_id": lease.agent_id,
        "iteration_id": lease.iteration_id,
        "step_id": lease.step_id,
        "phase": phase,
        "model": model,
        "system_prompt": system_prompt,
        "request": short,
        "context_sha256": digest,
    }
    given = {
        **row,
        "context": context,
        "of_step": lease.step_id,
        "epoch_before": lease.epoch - 1,
    }
    begin = _BEGIN if digest is None else _BEGIN_IN_CONTEXT
    begun = await begin.row(session, given)
    if begun is None:
        return await _resumed(session, lease, phase)
    return Interaction(**{**begun._asdict(), "request": request})


async def _resumed(session: AsyncSession, lease: Lease, phase: Phase) -> Interaction:
    row = await _FIND.row(session, {"id": ids.interaction_id(lease.step_id, phase)})
    found = Interaction(**row._asdict())
    found.request = (await requests(session, [found]))[found.id]
    return found


def told(
    interaction: Interaction, events: Sequence[dict[str, Any]], is_complete: bool
) -> Asked[None]:
    """Adds `events` in their order, each once: where a commit's answer was lost they may come again."""
    given = {
        "of_interaction": interaction.id,
        "events": json.dumps(events),
        "is_complete": is_complete,
    }
    return Asked(_TELL, given, lambda _: None)
