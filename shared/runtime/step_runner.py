"""Runs steps: claimed, worked on, ended or failed in the database, then published."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, NoReturn

from sqlalchemy.ext.asyncio import AsyncSession

from shared import derived_events
from shared.billing.budgets import BudgetUsedUpError
from shared.database.engine import Database
from shared.database.tables import Step
from shared.database.unit_of_work import UnitOfWork
from shared.enums import StepKind
from shared.errors import PermanentError, RetrySoonError, TransientError
from shared.events.codec import encode
from shared.events.envelope import Event
from shared.events.models import StepEvent
from shared.events.topology import CONSUMERS
from shared.failpoints import CrashPoint, reach
from shared.runtime.connections import bus_of, database_of
from shared.runtime.consumer import Actor
from shared.runtime.logging import logger
from shared.runtime.settings import Settings
from shared.workflow import dead_letters, leases, steps
from shared.workflow.leases import Lease, LeaseLostError
from shared.workflow.steps import Pauses

FIRST_REST_SECONDS = 2.0
LONGEST_REST_SECONDS = 60.0
PAUSES = Pauses()
"""Between two looks at a provider that is away or limits requests."""
LONGEST_RETRY_AFTER_SECONDS = 3600.0
"""What a provider asks for beyond this is not heeded: it may work again much earlier."""
HANDED_OVER = "handed over at shutdown, when the time of VIGIL_DRAIN_SECONDS was over"
MAX_CLAIMS = 50
"""A step that so many workers began and none ended kills them; it fails instead of being claimed for ever.

Claims that ended in waiting for a provider are not counted.
"""

log = logger(__name__)


@dataclass(frozen=True)
class Outcome:
    """What a step came to. `write` runs in the transaction that ends the step."""

    result: dict[str, Any]
    write: Callable[[AsyncSession], Awaitable[None]] | None = None


Work = Callable[[Lease, Step], Awaitable[Outcome]]
OnFailure = Callable[[AsyncSession, Step, str], Awaitable[None]]
"""Writes what follows from a step having failed for good, in the transaction that fails it; given the error's text."""


class StepHandler:
    """Handles every event that asks for a step, for any actor; `works` is what that actor does, by kind of step."""

    def __init__(
        self,
        actor: str,
        database: Database,
        *,
        worker: str,
        lease_seconds: float,
        max_attempts: int,
        works: Mapping[StepKind, Work],
        on_failure: Mapping[StepKind, OnFailure],
        is_followed: bool = False,
    ) -> None:
        """Work that `is_followed` while it goes on has each of its transactions committed at once."""
        self._actor = actor
        self._database = database
        self._worker = worker
        self._lease_seconds = lease_seconds
        self._max_attempts = max_attempts
        self._works = dict(works)
        self._on_failure = dict(on_failure)
        self._is_followed = is_followed

    async def __call__(self, event: Event) -> Sequence[Event]:
        assert isinstance(event, StepEvent)
        claim = await self._claimed(event)
        match claim:
            case leases.OfAnotherKind(kind):
                raise PermanentError(
                    "wrong_actor",
                    f"{event.subject} asks the {self._actor} for a step of kind {kind!r}, and it works on"
                    f" {' and '.join(self._works)} alone; look for who publishes it",
                )
            case leases.Gone():
                return []
            case leases.AlreadyEnded(step):
                return await self._told(step)
            case leases.NotYet(owner, seconds_left):
                raise TransientError(
                    f"step is with {owner}" if owner else "step rests after a failed try",
                    retry_in_seconds=seconds_left,
                    counts=False,
                )
            case leases.Claimed(lease, step):
                return await self._run(event, lease, step)

    async def _claimed(self, event: StepEvent) -> leases.Claim:
        """What was claimed is not committed yet: what its worker writes first goes with it.

        Where that is undone, the same is claimed again by what is written next. A step that has lain for long may have
        been somebody's death before anything was written: its claim is committed at once, so that it is counted.
        """
        claims: list[leases.Claim] = []

        async def take(session: AsyncSession) -> None:
            claims.append(await self._claim(session, event))
            first, last = claims[0], claims[-1]
            if isinstance(first, leases.Claimed) and not first.is_again(last):
                raise LeaseLostError(first.lease)

        unit = UnitOfWork(self._database, take, waits=not self._is_followed)
        async with unit.transaction():
            claim = claims[0]
        if not isinstance(claim, leases.Claimed):
            await unit.commit()
            return claim
        lease = replace(claim.lease, unit=unit)
        unit.begin_with(partial(leases.ensure_held, lease=lease))
        unit.once_committed(partial(reach, CrashPoint.LEASE_TAKEN))
        if claim.waited_seconds > self._lease_seconds:
            await unit.commit()
        return leases.Claimed(lease, claim.step)

    async def _claim(self, session: AsyncSession, event: StepEvent) -> leases.Claim:
        return await leases.claim(
            session,
            event.step_id,
            self._worker,
            seconds=self._lease_seconds,
            kinds=self._works.keys(),
        )

    async def _told(self, step: Step) -> Sequence[Event]:
        async with self._database.transaction() as session:
            return await derived_events.ended(session, step)

    async def _run(self, event: Event, lease: Lease, step: Step) -> Sequence[Event]:
        try:
            if lease.epoch - step.retried_epoch - step.waits > MAX_CLAIMS:
                raise PermanentError(
                    "claimed_too_often",
                    f"{MAX_CLAIMS} workers began this step and none lived to end it",
                )
            work = self._works[StepKind(step.kind)]
            outcome = await leases.while_held(self._database, lease, work(lease, step))
            return await self._end(lease, outcome)
        except LeaseLostError:
            raise
        except asyncio.CancelledError:
            said = step.error if step.waiting_since is not None else None
            await asyncio.shield(self._rest(lease, step, said or HANDED_OVER, 0, 0.0))
            raise
        except PermanentError as error:
            return await self._fail(event, lease, step, error)
        except RetrySoonError as error:
            await self._rest(lease, step, str(error), 0, 0.0)
            raise
        except TransientError as error:
            if not error.counts:
                return await self._wait(lease, error)
            return await self._retry_or_fail(event, lease, step, error)
        except Exception as error:
            log.exception("unexpected error")
            return await self._retry_or_fail(event, lease, step, TransientError(repr(error)))

    async def _end(self, lease: Lease, outcome: Outcome) -> Sequence[Event]:
        async with self._last_transaction(lease) as session:
            if outcome.write is not None:
                await outcome.write(session)
            ended = await steps.end(session, lease, outcome.result)
            told = await derived_events.ended(session, ended)
            reach(CrashPoint.STATE_WRITTEN)
            return told

    @asynccontextmanager
    async def _last_transaction(self, lease: Lease) -> AsyncIterator[AsyncSession]:
        """What is written in it is committed at its end, and with it whatever waited."""
        async with leases.leased_transaction(self._database, lease) as session:
            yield session
        if lease.unit is not None:
            await lease.unit.commit()

    async def _retry_or_fail(
        self, event: Event, lease: Lease, step: Step, error: TransientError
    ) -> Sequence[Event]:
        if step.attempts + 1 >= self._max_attempts:
            tried = f"{error} (gave up after {self._max_attempts} attempts; VIGIL_MAX_ATTEMPTS sets how many)"
            return await self._fail(event, lease, step, PermanentError("attempts_used_up", tried))
        growing = min(FIRST_REST_SECONDS * 2.0**step.attempts, LONGEST_REST_SECONDS)
        rest_seconds = max(growing, error.retry_in_seconds or 0.0)
        await self._rest(lease, step, str(error), 1, rest_seconds)
        raise TransientError(str(error), retry_in_seconds=rest_seconds) from error

    async def _wait(self, lease: Lease, error: TransientError) -> NoReturn:
        """A provider is away, or limits requests: the step goes on by itself when it answers again, however late."""
        asked_seconds = min(error.retry_in_seconds or 0.0, LONGEST_RETRY_AFTER_SECONDS)
        async with self._last_transaction(lease) as session:
            pause_seconds = await steps.wait(
                session, lease, str(error), pauses=PAUSES, least_seconds=asked_seconds
            )
        raise TransientError(str(error), retry_in_seconds=pause_seconds, counts=False) from error

    async def _rest(
        self, lease: Lease, step: Step, error: str, attempts: int, rest_seconds: float
    ) -> None:
        async with self._last_transaction(lease) as session:
            await steps.give_back(
                session,
                lease,
                error,
                attempts=step.attempts + attempts,
                rest_seconds=rest_seconds,
                keeps_waiting=not attempts,
            )

    async def _fail(
        self, event: Event, lease: Lease, step: Step, error: PermanentError
    ) -> Sequence[Event]:
        attempts = step.attempts + 1
        log.error("step failed for good", code=error.code, error=str(error), attempts=attempts)
        async with self._last_transaction(lease) as session:
            # Where the budget is used up nobody needs to look after it: the agent rests, and its owner was told.
            if not isinstance(error, BudgetUsedUpError):
                await dead_letters.keep(
                    session,
                    actor=self._actor,
                    subject=event.subject,
                    payload=encode(event),
                    code=error.code,
                    error=str(error),
                    attempts=attempts,
                    step_id=step.id,
                )
            if (write := self._on_failure.get(StepKind(step.kind))) is not None:
                await write(session, step, str(error))
            failed = await steps.fail(session, lease, str(error), attempts=attempts)
            return await derived_events.ended(session, failed)


CONNECTIONS_PER_SLOT = 2
"""One for the work, one for the lease's renewal."""


def step_database(name: str, settings: Settings, *, slots: int) -> Database:
    return database_of(
        settings, name, pool_size=CONNECTIONS_PER_SLOT * (settings.slots or slots) + 1
    )


def step_actor(
    name: str,
    settings: Settings,
    database: Database,
    works: Mapping[StepKind, Work],
    *,
    slots: int,
    closing: Sequence[Callable[[], Awaitable[None]]] = (),
    on_failure: Mapping[StepKind, OnFailure] = MappingProxyType({}),
    is_followed: bool = False,
) -> Actor:
    """`slots` is the actor's own default; the settings may say otherwise. For `is_followed` see `StepHandler`."""
    handler = StepHandler(
        name,
        database,
        worker=settings.worker_name,
        lease_seconds=settings.lease_seconds,
        max_attempts=settings.max_attempts,
        works=works,
        on_failure=on_failure,
        is_followed=is_followed,
    )
    return Actor(
        name,
        handlers=dict.fromkeys(CONSUMERS[name].hears, handler),
        bus=bus_of(settings, name),
        database=database,
        slots=settings.slots or slots,
        drain_seconds=settings.drain_seconds,
        closing=closing,
    )
