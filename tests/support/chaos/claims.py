"""Who holds the steps of an agent, and how long those of one who is gone wait for the next."""

import time
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from sqlalchemy import func, or_, select

from shared.database.engine import Database
from shared.database.tables import Agent, Step
from shared.enums import StepKind, StepStatus
from tests.support.waiting import until

PATIENCE_SECONDS: Final = 60.0
"""More than any step may wait: what fails a test is how long it was, not that nobody saw it."""


async def held_by(database: Database, pid: int) -> dict[UUID, int]:
    """The steps that the process has leased, and the epoch of each."""
    async with database.transaction() as session:
        found = await session.execute(
            select(Step.id, Step.epoch).where(Step.lease_owner.endswith(f":{pid}"))
        )
        return {row.id: row.epoch for row in found}


async def seconds_until_taken(
    database: Database, agent: Agent, kind: StepKind, dead_pid: int
) -> float:
    """From now until no step of that kind waits any more for somebody other than the dead."""
    left = or_(
        Step.status == StepStatus.PENDING,
        (Step.status == StepStatus.RUNNING) & Step.lease_owner.endswith(f":{dead_pid}"),
    )
    wanted = select(func.count()).where(Step.agent_id == agent.id, Step.kind == kind, left)

    async def look() -> bool:
        async with database.transaction() as session:
            return not await session.scalar(wanted)

    began = time.monotonic()
    await until(look, what=f"steps of kind {kind} to be taken by another", seconds=PATIENCE_SECONDS)
    return time.monotonic() - began


async def seconds_handed_over(database: Database, held: Mapping[UUID, int]) -> list[float]:
    """Waits until each step that was `held` has been claimed again; from its hand-over to its next claim, at most."""
    # What hands a step over lets it be claimed from that moment on, and writes that moment down.
    since = func.extract("epoch", func.clock_timestamp() - Step.retry_at)
    found: dict[UUID, float] = {}

    async def look() -> bool:
        async with database.transaction() as session:
            for step_id, epoch, seconds in await session.execute(
                select(Step.id, Step.epoch, since).where(Step.id.in_(held.keys() - found))
            ):
                if epoch > held[step_id]:
                    assert seconds is not None, "a claim without a hand-over before it"
                    found[step_id] = float(seconds)
        return found.keys() == held.keys()

    await until(look, what="what was handed over to be claimed", seconds=PATIENCE_SECONDS)
    return list(found.values())
