"""Phase runs: opened once, growing as they go."""

from typing import Any, Final, cast

from sqlalchemy import Table, and_, bindparam, exists, func, literal, select, update
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store import ids
from shared.store.direct import Direct
from shared.store.leases import Lease
from shared.store.tables import Interaction, Step
from shared.store.words import Phase

_TABLE: Final = cast(Table, Interaction.__table__)
_GIVEN: Final = (
    "id", "agent_id", "iteration_id", "step_id", "phase", "model", "system_prompt", "request",
)  # fmt: skip
_NEW: Final = insert(_TABLE)
_BEGIN: Final = Direct(
    _NEW.on_conflict_do_update(
        index_elements=[_TABLE.c.id],
        set_={name: _NEW.excluded[name] for name in ("model", "system_prompt", "request")},
        where=and_(
            _TABLE.c.events == literal([], JSONB),
            exists().where(
                Step.id == bindparam("of_step"),
                Step.retried_epoch > 0,
                Step.retried_epoch == bindparam("epoch_before"),
            ),
        ),
    ).returning(_TABLE),
    columns=_GIVEN,
)
_FIND: Final = Direct(select(_TABLE).where(_TABLE.c.id == bindparam("id")))
_EVENT: Final = bindparam("event", type_=JSONB)
_OF_IT: Final = _TABLE.c.id == bindparam("of_interaction")
_APPEND: Final = Direct(
    update(_TABLE)
    .where(_OF_IT, ~_TABLE.c.events.contains(_EVENT))
    .values(events=_TABLE.c.events.op("||")(_EVENT))
)
_COMPLETE: Final = Direct(update(_TABLE).where(_OF_IT).values(completed_at=func.clock_timestamp()))


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
) -> Interaction:
    """The step's interaction in `phase`: the one begun before, with what it was told then, or a new one.

    One that never got an answer begins anew where a person has asked for the step's retry since: what was wrong with
    the model's name or the prompt may have been mended. After a crash it does not: its call may be in flight.
    """
    row = {
        "id": ids.interaction_id(lease.step_id, phase),
        "agent_id": lease.agent_id,
        "iteration_id": lease.iteration_id,
        "step_id": lease.step_id,
        "phase": phase,
        "model": model,
        "system_prompt": system_prompt,
        "request": request,
    }
    begun = await _BEGIN.row(
        session, {**row, "of_step": lease.step_id, "epoch_before": lease.epoch - 1}
    )
    if begun is None:
        begun = await _FIND.row(session, {"id": row["id"]})
    return Interaction(**begun._asdict())


async def append(session: AsyncSession, interaction: Interaction, event: dict[str, Any]) -> None:
    """Adds `event`, once: where a commit's answer was lost it may come again."""
    await _APPEND.run(session, {"of_interaction": interaction.id, "event": [event]})


async def complete(session: AsyncSession, interaction: Interaction) -> None:
    await _COMPLETE.run(session, {"of_interaction": interaction.id})
