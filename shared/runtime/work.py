"""How a step is worked on: claimed, worked, ended or failed in the state, and then told."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from shared.crash_points import CrashPoint, reach
from shared.errors import PermanentError, TransientError
from shared.events.codec import encode
from shared.events.envelope import Event
from shared.events.models import StepEvent
from shared.runtime.logs import logger
from shared.store import dead_letters, leases, steps, telling
from shared.store.database import Database
from shared.store.leases import Lease, LeaseLostError
from shared.store.tables import Step
from shared.store.words import StepKind

FIRST_REST_SECONDS = 2.0
LONGEST_REST_SECONDS = 60.0
MAX_CLAIMS = 50
"""A step that so many workers began and none ended kills them; it fails instead of being claimed for ever."""

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
    ) -> None:
        self._actor = actor
        self._database = database
        self._worker = worker
        self._lease_seconds = lease_seconds
        self._max_attempts = max_attempts
        self._works = dict(works)
        self._on_failure = dict(on_failure)

    async def __call__(self, event: Event) -> Sequence[Event]:
        assert isinstance(event, StepEvent)
        async with self._database.transaction() as session:
            claim = await leases.claim(
                session,
                event.step_id,
                self._worker,
                seconds=self._lease_seconds,
                kinds=self._works.keys(),
            )
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
                reach(CrashPoint.LEASE_TAKEN)
                return await self._told(await self._run(event, lease, step))

    async def _told(self, step: Step) -> Sequence[Event]:
        async with self._database.transaction() as session:
            return await telling.ended(session, step)

    async def _run(self, event: Event, lease: Lease, step: Step) -> Step:
        try:
            if lease.epoch - step.retried_epoch > MAX_CLAIMS:
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
            await asyncio.shield(self._rest(lease, step, "handed over at shutdown", 0, 0.0))
            raise
        except PermanentError as error:
            return await self._fail(event, lease, step, error)
        except TransientError as error:
            if not error.counts:
                await self._rest(lease, step, str(error), 0, 0.0)
                raise
            return await self._retry_or_fail(event, lease, step, error)
        except Exception as error:
            log.exception("unexpected error")
            return await self._retry_or_fail(event, lease, step, TransientError(repr(error)))

    async def _end(self, lease: Lease, outcome: Outcome) -> Step:
        async with leases.leased_transaction(self._database, lease) as session:
            if outcome.write is not None:
                await outcome.write(session)
            ended = await steps.end(session, lease, outcome.result)
            reach(CrashPoint.STATE_WRITTEN)
            return ended

    async def _retry_or_fail(
        self, event: Event, lease: Lease, step: Step, error: TransientError
    ) -> Step:
        if step.attempts + 1 >= self._max_attempts:
            tried = f"{error} (gave up after {self._max_attempts} attempts)"
            return await self._fail(event, lease, step, PermanentError("attempts_used_up", tried))
        growing = min(FIRST_REST_SECONDS * 2.0**step.attempts, LONGEST_REST_SECONDS)
        rest_seconds = max(growing, error.retry_in_seconds or 0.0)
        await self._rest(lease, step, str(error), 1, rest_seconds)
        raise TransientError(str(error), retry_in_seconds=rest_seconds) from error

    async def _rest(
        self, lease: Lease, step: Step, error: str, attempts: int, rest_seconds: float
    ) -> None:
        async with self._database.transaction() as session:
            await steps.give_back(
                session,
                lease,
                error,
                attempts=step.attempts + attempts,
                rest_seconds=rest_seconds,
            )

    async def _fail(self, event: Event, lease: Lease, step: Step, error: PermanentError) -> Step:
        attempts = step.attempts + 1
        log.error("step failed for good", code=error.code, error=str(error), attempts=attempts)
        async with leases.leased_transaction(self._database, lease) as session:
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
            return await steps.fail(session, lease, str(error), attempts=attempts)
