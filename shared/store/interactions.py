"""Phase runs: opened once, growing as they go."""

from typing import Any

from sqlalchemy import ColumnElement, and_, cast, exists, func, or_, update
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.sql.base import ReadOnlyColumnCollection

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

    One that never got an answer begins anew where the model or prompt is another now, or a person had the step retried:
    who has mended something has it tried with the right one. But for that it says what it said, whatever is known by
    now: its first call may be under way, and is found again by its request alone.
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
    await session.execute(
        begun.on_conflict_do_update(
            index_elements=[Interaction.id],
            set_={
                "model": begun.excluded.model,
                "system_prompt": begun.excluded.system_prompt,
                "request": begun.excluded.request,
            },
            where=and_(Interaction.events == cast([], JSONB), _mended(begun.excluded)),
        )
    )
    return await session.get_one(Interaction, interaction_id, populate_existing=True)


def _mended(now: ReadOnlyColumnCollection[str, Any]) -> ColumnElement[bool]:
    retried = exists().where(
        Step.id == Interaction.step_id, Step.retry_requested_at > Interaction.created_at
    )
    return or_(
        Interaction.model != now.model, Interaction.system_prompt != now.system_prompt, retried
    )


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
