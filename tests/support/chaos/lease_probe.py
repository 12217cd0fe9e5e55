"""Which process has leased the steps of an agent, and how long the steps of a dead one wait for another."""

import time
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from sqlalchemy import func, or_, select

from shared.database.engine import Database
from shared.database.tables import Agent, Step
from shared.enums import StepKind, StepStatus
from tests.support.waiting import wait_until

PATIENCE_SECONDS: Final = 60.0
"""More than any step may wait, so that a test fails by the measured time and not by this timeout."""


async def leased_steps(database: Database, pid: int) -> dict[UUID, int]:
    """The steps that the process has leased, and the epoch of each."""
    async with database.transaction() as session:
        rows = await session.execute(
            select(Step.id, Step.epoch).where(Step.lease_owner.endswith(f":{pid}"))
        )
        return {row.id: row.epoch for row in rows}


async def takeover_seconds(
    database: Database, agent: Agent, kind: StepKind, dead_pid: int
) -> float:
    """Seconds from now until another process has claimed every step of that kind."""
    is_waiting = or_(
        Step.status == StepStatus.PENDING,
        (Step.status == StepStatus.RUNNING) & Step.lease_owner.endswith(f":{dead_pid}"),
    )
    waiting_steps = select(func.count()).where(
        Step.agent_id == agent.id, Step.kind == kind, is_waiting
    )

    async def look() -> bool:
        async with database.transaction() as session:
            return not await session.scalar(waiting_steps)

    started = time.monotonic()
    await wait_until(
        look, what=f"steps of kind {kind} to be taken by another", seconds=PATIENCE_SECONDS
    )
    return time.monotonic() - started


async def handover_seconds(database: Database, epochs: Mapping[UUID, int]) -> list[float]:
    """Wait until each step of `epochs` has been claimed again; return the seconds from hand-over to claim, at most."""
    # The hand-over sets retry_at to its own time, from which the step can be claimed.
    seconds_since_release = func.extract("epoch", func.clock_timestamp() - Step.retry_at)
    seconds_by_step: dict[UUID, float] = {}

    async def look() -> bool:
        async with database.transaction() as session:
            for step_id, epoch, seconds in await session.execute(
                select(Step.id, Step.epoch, seconds_since_release).where(
                    Step.id.in_(epochs.keys() - seconds_by_step)
                )
            ):
                if epoch > epochs[step_id]:
                    assert seconds is not None, "the step was claimed without a hand-over"
                    seconds_by_step[step_id] = float(seconds)
        return seconds_by_step.keys() == epochs.keys()

    await wait_until(
        look, what="the steps that were handed over to be claimed", seconds=PATIENCE_SECONDS
    )
    return list(seconds_by_step.values())
