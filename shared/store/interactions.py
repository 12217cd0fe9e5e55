"""Phase runs: opened once, growing as they go."""

import json
from collections.abc import Sequence
from typing import Any, Final, cast

from sqlalchemy import Table, and_, bindparam, exists, literal, select
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store import contexts, ids
from shared.store.direct import Direct
from shared.store.leases import Lease
from shared.store.round_trip import Asked
from shared.store.tables import Interaction, Step
from shared.store.words import Phase

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
_BEGIN_IN_CONTEXT: Final = Direct(select(_IN_CONTEXT).add_cte(contexts.keeping(_IN_CONTEXT)))
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
    short, digest = contexts.apart(request, context)
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
    found.request = (await contexts.requests(session, [found]))[found.id]
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
