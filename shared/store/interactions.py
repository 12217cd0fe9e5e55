"""Phase runs: opened once, growing as they go."""

from typing import Any

from sqlalchemy import and_, cast, exists, func, update
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store import ids
from shared.store.leases import Lease
from shared.store.tables import Interaction, Step
from shared.store.words import Phase


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
    interaction_id = ids.interaction_id(lease.step_id, phase)
    row = {
        "id": interaction_id,
        "agent_id": lease.agent_id,
        "iteration_id": lease.iteration_id,
        "step_id": lease.step_id,
        "phase": phase,
        "model": model,
        "system_prompt": system_prompt,
        "request": request,
    }
    begun = insert(Interaction).values(row)
    first_since_retry = exists().where(
        Step.id == lease.step_id, Step.retried_epoch > 0, Step.retried_epoch == lease.epoch - 1
    )
    await session.execute(
        begun.on_conflict_do_update(
            index_elements=[Interaction.id],
            set_={
                "model": begun.excluded.model,
                "system_prompt": begun.excluded.system_prompt,
                "request": begun.excluded.request,
            },
            where=and_(Interaction.events == cast([], JSONB), first_since_retry),
        )
    )
    return await session.get_one(Interaction, interaction_id, populate_existing=True)


async def append(session: AsyncSession, interaction: Interaction, event: dict[str, Any]) -> None:
    """Adds `event`, once: where a commit's answer was lost it may come again."""
    await session.execute(
        update(Interaction)
        .where(Interaction.id == interaction.id, ~Interaction.events.contains([event]))
        .values(events=Interaction.events.op("||")(cast([event], JSONB)))
        .execution_options(synchronize_session=False)
    )


async def complete(session: AsyncSession, interaction: Interaction) -> None:
    await session.execute(
        update(Interaction)
        .where(Interaction.id == interaction.id)
        .values(completed_at=func.clock_timestamp())
        .execution_options(synchronize_session=False)
    )
