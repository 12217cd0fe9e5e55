"""The gate through which a process calls a provider.

While no limit is set or learned and the provider works, a call passes it without waiting for anything: the process looks at
the shared state every few seconds, beside its calls. Otherwise calls get permits from the shared state, all that wait
together in one round trip.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Protocol, TypeVar
from uuid import uuid4

from shared.database.text import error_text
from shared.errors import (
    USED_UP,
    QuotaUsedUpError,
    RetrySoonError,
    TransientError,
    UnavailableError,
    VigilError,
    WaitForProviderError,
)
from shared.provider_limits.state import (
    BURST_SECONDS,
    MAX_WAIT_SECONDS,
    PERMIT_SECONDS,
    PLACE_PAUSE_SECONDS,
    RECENT_SECONDS,
    WINDOW_SECONDS,
    Answer,
    Demand,
    Grant,
    Limits,
    Permit,
    ProviderState,
    Refusal,
    Wait,
    Want,
)
from shared.provider_limits.store import Known, StateStore

T = TypeVar("T")

LOOK_SECONDS: Final = 2.0
"""How old the process's copy of the state may be while it calls the provider."""
ASK_AGAIN_SECONDS: Final = 0.5
"""Between two looks for a free place among the calls in progress."""
RENEW_SECONDS: Final = 10.0
WATCH_SECONDS: Final = 2.0
"""Seconds between checks during an outage, and while a call is not answered."""
QUOTA_WATCH_SECONDS: Final = 60.0
"""Seconds between checks while a quota is used up. Each check writes the state, which is outdated otherwise."""
HANGING_SECONDS: Final = 15.0
"""After this time without an answer a call may have been lost in an outage that the process has not noticed."""
LOST_SECONDS: Final = 30.0
"""A call that was sent before an outage, and is not answered so long after its end, is given up."""
PROBE_SECONDS: Final = 25.0
"""Time limit of a probe that is a request of its own."""
WANTED_SECONDS: Final = 600.0
"""So long after the last call of the process wanted it, an unavailable provider is probed."""
CLOSE_SECONDS: Final = 2.0
"""For giving back the places at the end of the process."""
MAX_CONFLICT_SECONDS: Final = 0.03
MAX_CONFLICTS_AT_ONCE: Final = 3
"""A write that conflicts is repeated at once up to so many times: it has just received the newest state."""
MAX_SPARE: Final = 50
SPARE_SECONDS: Final = 2.0
"""A process borrows as many permits as it has used in this time."""


class Log(Protocol):
    def warning(self, event: str, **fields: Any) -> Any: ...

    def info(self, event: str, **fields: Any) -> Any: ...


@dataclass(eq=False)
class Passage:
    """One call on its way."""

    sent_at: float
    """By the database's clock, if it is known."""
    local_time: float
    is_probe: bool
    expected_tokens: int
    _note_answer: Callable[["Passage"], None]
    _note_failure: Callable[["Passage", str], Awaitable[bool]]
    has_answered: bool = False
    has_failed: bool = False
    used_tokens: int | None = None
    """Set it when they are known."""
    give_up: Callable[[], None] | None = None
    """Ends the wait for an answer, because the call was lost in an outage."""

    def answered(self) -> None:
        """The provider has started to answer."""
        if not self.has_answered:
            self.has_answered = True
            self._note_answer(self)

    async def failed(self, error: str) -> bool:
        """The provider did not answer in time. Returns whether it is known to be unavailable now."""
        return await self._note_failure(self, error)


@dataclass
class _Waiter:
    want: Want
    answer: asyncio.Future[Permit]
    since: float

    @property
    def has_permit(self) -> bool:
        answer = self.answer
        return answer.done() and not answer.cancelled() and answer.exception() is None

    @property
    def is_too_late(self) -> bool:
        """Whether it has waited for a place as long as it may."""
        longest = self.want.max_wait_seconds
        longest = MAX_WAIT_SECONDS if longest is None else longest
        return time.monotonic() - self.since > longest


class ProviderGate:
    """Lets the calls of one process to one provider pass. Create one per process and provider, and close it."""

    def __init__(
        self,
        name: str,
        *,
        limits: Limits | None = None,
        store: StateStore | None = None,
        log: Log | None = None,
    ) -> None:
        """`name` is shown in messages. Without a `store` all calls pass."""
        self.name = name
        self._limits = limits or Limits()
        self._store = store
        self._log = log
        self.probe: Callable[[], Awaitable[None]] | None = None
        """Sends a request of its own, which shows whether the provider is available. Without it the next call does. It
        raises like a call.
        """
        self._holder = uuid4().hex[:12]
        self._known = Known(0, ProviderState(), 0.0)
        self._clock_offset: float | None = None
        self._looked_at = float("-inf")
        self._writing = asyncio.Lock()
        self._waiters: list[_Waiter] = []
        self._running = 0
        self._place_freed = asyncio.Event()
        """For calls that wait: to request a place again."""
        self._places_changed = asyncio.Event()
        """For the task that keeps the places: a call has ended, or places are left that no call waits for."""
        self._spare: deque[Permit] = deque()
        self._sent: deque[float] = deque(maxlen=10_000)
        """When calls were sent that the provider did not refuse, by the process's clock."""
        self._uncounted_tokens = 0
        self._serving: asyncio.Task[None] | None = None
        self._keeping_places: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[bool] | None = None
        self._reports: set[asyncio.Task[bool]] = set()
        self._watching: asyncio.Task[None] | None = None
        self._probing: asyncio.Task[bool] | None = None
        self._unanswered: set[Passage] = set()
        self._answered_at = float("-inf")
        """When the provider answered a call of this process last."""
        self._wanted_at = float("-inf")
        self._outage: float | None = None
        self._is_limited = False

    @asynccontextmanager
    async def passage(
        self,
        *,
        tokens: int = 0,
        max_wait_seconds: float | None = None,
        waited_seconds: float = 0.0,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> AsyncIterator[Passage]:
        """Context of one call, which begins when it may be sent. `tokens` are those that it is expected to use. A call with
        `max_wait_seconds` is left out rather than waited for any longer, and takes no turn of others.

        Calls of steps that have `waited_seconds` longer come first. The call waits in the context `waiting`.

        Raises WaitForProviderError if the call must not be sent soon.
        """
        try:
            with waiting():
                permit = await self._permit(tokens, max_wait_seconds, waited_seconds)
        finally:
            self._watch_for_caller()
        local_time = time.monotonic()
        self._sent.append(local_time)
        passage = Passage(
            self._now(), local_time, permit.is_probe, tokens, self._note_answer, self._note_failure
        )
        self._unanswered.add(passage)
        try:
            yield passage
        except UnavailableError as error:
            await self._note_error(passage, error)
            raise
        except TransientError:
            raise
        except VigilError:
            passage.answered()
            raise
        finally:
            self._unanswered.discard(passage)
            if self._limits.tokens_per_minute is not None and passage.used_tokens is not None:
                self._uncounted_tokens += passage.used_tokens - passage.expected_tokens
            self._end_one()

    @property
    def is_serial(self) -> bool:
        """Whether the settings allow one call at a time."""
        return self._limits.concurrency == 1

    async def answers_others(self, since: float) -> bool:
        """Whether the provider has answered another call since that time (`time.monotonic`), or answers a probe now."""
        return self._answered_at > since or (self.probe is not None and await self._try_probe())

    @property
    def outage(self) -> str | None:
        """What a call would be refused with; None while the provider is available, as far as this process knows."""
        state = self._known.state
        if state.unavailable_since is None:
            return None
        if self.probe is None and state.is_probe_due(self._now()):
            return None
        # Another provider may be used meanwhile, so no call of this one would notice its return.
        self._watch_for_caller()
        return self._describe(Refusal(state.probe_at, is_outage=True))

    @property
    def _is_old(self) -> bool:
        return time.monotonic() - self._looked_at >= LOOK_SECONDS

    async def look(self) -> None:
        """Reads the shared state if the process's copy is old."""
        if self._store is None or not self._is_old:
            return
        # Not beside a write, whose result would be newer than this one.
        async with self._writing:
            if self._is_old:
                self._looked_at = time.monotonic()
                self._learn(await self._store.read())

    async def close(self) -> None:
        tasks = [
            self._serving,
            self._keeping_places,
            self._looking,
            self._watching,
            self._probing,
            *self._reports,
        ]
        running = [task for task in tasks if task is not None and not task.done()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for waiter in tuple(self._waiters):
            self._settle(waiter, RetrySoonError("this process stops"))
        if self._held:
            # Others need not wait until its places are free.
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._try_change(lambda state, _: state.leave(self._holder))

    @property
    def _held(self) -> int:
        """Places that the process has, as far as it knows."""
        own = self._known.state.holders.get(self._holder)
        return own.held if own is not None else 0

    # What a call waits for

    async def _permit(
        self, tokens: int, max_wait_seconds: float | None, waited_seconds: float
    ) -> Permit:
        """Returns when the call may be sent. It is one of those that run then."""
        since = time.monotonic()
        longest = MAX_WAIT_SECONDS if max_wait_seconds is None else max_wait_seconds
        while True:
            if (permit := self._free_permit()) is not None:
                self._begin_one()
                return permit
            if time.monotonic() - since > longest:
                raise self._waiting(Refusal(self._now() + PLACE_PAUSE_SECONDS))
            want = Want(tokens, waited_seconds, max_wait_seconds, self.probe is None)
            permit = await self._request_permit(want, since)
            is_used = False
            try:
                seconds = permit.at - self._now()
                if seconds > MAX_WAIT_SECONDS + BURST_SECONDS:
                    # The database's clock has been set back meanwhile.
                    raise self._waiting(Refusal(self._now() + PLACE_PAUSE_SECONDS))
                await asyncio.sleep(seconds)
                is_used = permit.is_probe or not self._is_outdated(permit)
            finally:
                if not is_used:
                    self._uncounted_tokens -= 0 if permit.is_probe else tokens
                    self._end_one()
            if is_used:
                return permit

    def _free_permit(self) -> Permit | None:
        """A permit that needs no request."""
        if self._store is None:
            return Permit(0.0)
        if not self._limits.are_set and not self._known.state.restricts(self._now()):
            if self._is_old and (self._looking is None or self._looking.done()):
                self._looking = asyncio.create_task(self._succeeds(self.look()))
            return Permit(self._now())
        while self._spare:
            permit = self._spare.popleft()
            if not self._is_outdated(permit):
                return permit
        return None

    def _is_outdated(self, permit: Permit) -> bool:
        """Whether the permit has expired, or the provider has refused another call meanwhile."""
        state, now = self._known.state, self._now()
        return (
            state.unavailable_since is not None
            or state.paused_until > now
            or now > permit.at + PERMIT_SECONDS
        )

    async def _request_permit(self, want: Want, since: float) -> Permit:
        loop = asyncio.get_running_loop()
        waiter = _Waiter(want, loop.create_future(), since)
        self._waiters.append(waiter)
        if self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(self._serve())
        try:
            return await waiter.answer
        except asyncio.CancelledError:
            if waiter.has_permit:
                self._end_one()
            raise
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    async def _serve(self) -> None:
        """Asks for all waiting calls together, until none waits."""
        while self._waiters:
            self._place_freed.clear()  # one that is freed from now on is not part of the request
            batch = sorted(self._waiters, key=lambda each: (-each.want.waited_seconds, each.since))
            try:
                grant = await self._obtain(tuple(each.want for each in batch))
            except Exception as error:  # noqa: BLE001  the calls that wait raise it
                for waiter in batch:
                    self._settle(waiter, error)
                continue
            self._spare.extend(grant.spare)
            for waiter, answer in zip(batch, grant.answers, strict=True):
                self._settle(waiter, self._evaluate(waiter, answer))
            if self._waiters and not any(isinstance(each, Permit) for each in grant.answers):
                try:
                    async with asyncio.timeout(ASK_AGAIN_SECONDS * random.uniform(0.5, 1.0)):
                        await self._place_freed.wait()
                except TimeoutError:
                    continue
        if self._held > self._running:
            self._start_keeping()
            self._places_changed.set()

    def _evaluate(self, waiter: _Waiter, answer: Answer) -> Permit | Exception | None:
        match answer:
            case Permit():
                return answer
            case Refusal():
                return self._waiting(answer)
            case Wait() if waiter.is_too_late:
                pause = PLACE_PAUSE_SECONDS * random.uniform(0.8, 1.2)
                return self._waiting(Refusal(self._now() + pause))
            case Wait():
                return None

    def _settle(self, waiter: _Waiter, outcome: Permit | Exception | None) -> None:
        if outcome is None or waiter not in self._waiters:
            return
        self._waiters.remove(waiter)
        if waiter.answer.done():
            return
        if isinstance(outcome, Exception):
            waiter.answer.set_exception(outcome)
        else:
            # It has its place from now on.
            self._begin_one()
            waiter.answer.set_result(outcome)

    async def _obtain(self, wants: tuple[Want, ...]) -> Grant:
        state = self._known.state
        if state.unavailable_since is not None:
            await self.look()
            state, now = self._known.state, self._now()
            is_due = self.probe is None and state.is_probe_due(now)
            if state.unavailable_since is not None and not is_due:
                # Nothing changes, so nothing is written.
                return state.copy().grant(
                    self._limits, now, self._holder, Demand(wants), random.random()
                )
        uncounted = self._uncounted_tokens

        def grant_all(state: ProviderState, now: float) -> Grant:
            accepted, recent = self._count_sent()
            spare = self._count_sent_within(SPARE_SECONDS)
            demand = Demand(
                wants,
                self._running,
                accepted,
                recent,
                min(max(spare - len(wants), 0), MAX_SPARE),
                uncounted,
            )
            return state.grant(self._limits, now, self._holder, demand, random.random())

        grant = await self._change(grant_all)
        self._uncounted_tokens -= uncounted
        return grant

    def _count_sent(self) -> tuple[int, int]:
        while self._sent and self._sent[0] < time.monotonic() - WINDOW_SECONDS:
            self._sent.popleft()
        return len(self._sent), self._count_sent_within(RECENT_SECONDS)

    def _count_sent_within(self, seconds: float) -> int:
        since = time.monotonic() - seconds
        return sum(at > since for at in self._sent)

    def _waiting(self, refusal: Refusal) -> WaitForProviderError:
        return WaitForProviderError(
            self._describe(refusal),
            retry_in_seconds=max(refusal.until - self._now(), 0.0),
            is_quota=refusal.is_outage and self._known.state.is_quota,
        )

    def _describe(self, refusal: Refusal) -> str:
        state = self._known.state
        if refusal.is_outage and state.is_quota:
            return f"{self.name} {USED_UP}: {state.error}"
        if refusal.is_outage:
            return f"{self.name} is unavailable: {state.error}"
        if state.paused_until > self._now():
            return f"{self.name} limits requests, and asked to wait: {state.error}"
        if state.learned_per_minute(self._now()) is not None:
            return f"{self.name} limits requests: {state.error}"
        return f"the limits that are set for {self.name} allow no more calls now"

    # What becomes of a call

    def _note_answer(self, passage: Passage) -> None:
        self._unanswered.discard(passage)
        self._answered_at = time.monotonic()
        state = self._known.state
        if state.failures or state.unavailable_since is not None:
            self._report(lambda state, now: state.answered(now))

    async def _note_error(self, passage: Passage, error: UnavailableError) -> None:
        if isinstance(error, WaitForProviderError):
            return
        if isinstance(error, QuotaUsedUpError):
            text, seconds = error_text(str(error)), error.retry_in_seconds
            await self._try_change(lambda state, now: state.used_up(now, text, seconds))
            error.is_announced = self._outage is not None
            return
        if not error.is_rate_limit:
            error.is_announced = await self._note_failure(passage, str(error))
            return
        with suppress(ValueError):
            self._sent.remove(passage.local_time)

        def refuse(state: ProviderState, now: float) -> None:
            accepted, recent = self._count_sent()
            state.refused(
                now,
                self._holder,
                sent_at=passage.sent_at,
                accepted=accepted,
                recent=recent,
                retry_after=error.retry_in_seconds,
                error=error_text(str(error)),
            )

        await self._try_change(refuse)
        error.is_announced = self._is_limited

    async def _note_failure(self, passage: Passage, error: str) -> bool:
        if not passage.has_answered and not passage.has_failed:
            passage.has_failed = True
            self._unanswered.discard(passage)
            is_confirmed = passage.is_probe or self.probe is None
            await self._try_change(
                lambda state, now: state.failed(
                    now, error_text(error), is_probe=passage.is_probe, is_confirmed=is_confirmed
                )
            )
            if not is_confirmed and self._known.state.is_suspect:
                await self._try_probe()
        return self._outage is not None

    def _end_one(self) -> None:
        self._running -= 1
        if self._limits.concurrency is not None:
            self._place_freed.set()
            self._places_changed.set()

    def _begin_one(self) -> None:
        self._running += 1
        self._start_keeping()

    def _start_keeping(self) -> None:
        no_task = self._keeping_places is None or self._keeping_places.done()
        if self._limits.concurrency is not None and no_task:
            self._keeping_places = asyncio.create_task(self._keep_places())

    async def _keep_places(self) -> None:
        """Keeps the places of calls in progress, and gives back those of calls that have ended."""
        while self._held or self._running:
            must_renew = self._held > self._running and not self._waiters
            self._places_changed.clear()
            if not must_renew:
                try:
                    async with asyncio.timeout(RENEW_SECONDS):
                        await self._places_changed.wait()
                except TimeoutError:
                    must_renew = True
            # A call that waits uses the places with its next request.
            if (must_renew or not self._waiters) and not await self._try_change(self._renew):
                await asyncio.sleep(ASK_AGAIN_SECONDS)

    def _renew(self, state: ProviderState, now: float) -> None:
        accepted, recent = self._count_sent()
        demand = Demand((), self._running, accepted, recent)
        state.grant(self._limits, now, self._holder, demand, random.random())

    # Probes, and calls that an outage has swallowed

    async def _try_probe(self) -> bool:
        """Whether the provider answers a request of its own. Calls that ask at the same time share one."""
        if self._probing is None or self._probing.done():
            self._probing = asyncio.create_task(self._send_probe())
        return await asyncio.shield(self._probing)

    async def _send_probe(self) -> bool:
        assert self.probe is not None
        passage = Passage(
            self._now(), time.monotonic(), True, 0, self._note_answer, self._note_failure
        )
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await self.probe()
        except TimeoutError:
            await passage.failed(f"{self.name} did not answer a probe within {PROBE_SECONDS:g} s")
        except UnavailableError as error:
            await self._note_error(passage, error)
            return error.is_rate_limit
        except TransientError as error:
            await passage.failed(str(error))
        except VigilError:
            passage.has_answered = True  # it refuses the probe, and works
        else:
            passage.has_answered = True
        if passage.has_answered:
            await self._try_change(lambda state, now: state.answered(now))
        return passage.has_answered

    def _watch_for_caller(self) -> None:
        self._wanted_at = time.monotonic()
        if self._store is not None and (self._watching is None or self._watching.done()):
            self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        """Probes an unavailable provider, and gives up the calls that it has lost, while there is an outage or a call."""
        while self._unanswered or self._is_probed:
            is_quota = self._known.state.is_quota
            await asyncio.sleep(QUOTA_WATCH_SECONDS if is_quota else WATCH_SECONDS)
            oldest = min((each.local_time for each in self._unanswered), default=float("inf"))
            if time.monotonic() - oldest >= HANGING_SECONDS or self._outage is not None:
                await self._succeeds(self.look())
            if self.probe is not None and self._known.state.unavailable_since is not None:
                await self._probe_if_due()
            self._give_up_lost()

    @property
    def _is_probed(self) -> bool:
        is_wanted = time.monotonic() - self._wanted_at < WANTED_SECONDS
        state = self._known.state
        is_away = state.unavailable_since is not None and self.probe is not None
        return is_away and (is_wanted or state.is_quota)

    async def _probe_if_due(self) -> None:
        if self._probing is not None and not self._probing.done():
            # Its result says when the next one is due; a time that is set now would outlast it.
            return
        has_begun: list[bool] = []

        def begin(state: ProviderState, now: float) -> None:
            has_begun[:] = [state.begin_probe(now)]

        state = self._known.state
        is_due = state.is_probe_due(self._now())
        if (is_due or state.is_quota) and await self._try_change(begin) and has_begun[0]:
            await self._try_probe()

    def _give_up_lost(self) -> None:
        state = self._known.state
        if self._now() < state.returned_at + LOST_SECONDS:
            return
        for passage in tuple(self._unanswered):
            # By the database's clock, which the process may not have known when it sent the call.
            sent_at = passage.local_time + (self._clock_offset or 0.0)
            if sent_at < state.returned_at and passage.give_up is not None:
                passage.give_up()

    def _report(self, change: Callable[[ProviderState, float], None]) -> None:
        task = asyncio.create_task(self._try_change(change))
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)

    # The shared state

    def _now(self) -> float:
        """The database's time."""
        return time.monotonic() + (self._clock_offset or 0.0)

    async def _try_change(self, change: Callable[[ProviderState, float], None]) -> bool:
        """Returns whether it was stored."""
        return self._store is not None and await self._succeeds(self._change(change))

    async def _succeeds(self, work: Coroutine[Any, Any, Any]) -> bool:
        """Returns whether it succeeded. Other processes detect by their own calls what cannot be stored now."""
        try:
            await work
        except TransientError:
            return False
        except Exception as error:  # noqa: BLE001  a standby that refuses writes, a missing privilege: no call fails for it
            if self._log is not None:
                self._log.warning(
                    "the state of a provider cannot be stored",
                    provider=self.name,
                    error=repr(error),
                )
            return False
        return True

    async def _change(self, change: Callable[[ProviderState, float], T]) -> T:
        """Changes the stored state, also if other processes change it meanwhile. Raises RetrySoonError if PostgreSQL is
        unavailable.
        """
        assert self._store is not None
        async with self._writing:
            if self._clock_offset is None:
                self._learn(await self._store.read())
            for conflicts in count():
                if conflicts >= MAX_CONFLICTS_AT_ONCE:
                    await asyncio.sleep(random.uniform(0.0, MAX_CONFLICT_SECONDS))
                state = self._known.state.copy()
                result = change(state, self._now())
                self._learn(known := await self._store.write(self._known.version, state))
                if known.is_written:
                    return result
            raise AssertionError

    def _learn(self, known: Known) -> None:
        self._looked_at = time.monotonic()
        self._clock_offset = known.now - self._looked_at
        # Its version may be lower than before: after a restore, or on a replica that has taken over.
        self._known = known
        self._log_changes()

    def _log_changes(self) -> None:
        """Logs the beginning and the end of an outage, once each."""
        state, now = self._known.state, self._now()
        since = state.unavailable_since
        if since is not None and self._outage is None and self._log is not None:
            self._log.warning(
                "provider unavailable; steps wait", provider=self.name, error=state.error
            )
        if since is None and self._outage is not None and self._log is not None:
            seconds = round(now - self._outage)
            self._log.info("provider available again", provider=self.name, after_seconds=seconds)
        self._outage = since
        is_limited = state.paused_until > now or state.learned_per_minute(now) is not None
        if is_limited and not self._is_limited and self._log is not None:
            self._log.warning("provider limits requests", provider=self.name, error=state.error)
        if self._is_limited and not is_limited and self._log is not None:
            self._log.info("provider limits requests no more", provider=self.name)
        self._is_limited = is_limited
