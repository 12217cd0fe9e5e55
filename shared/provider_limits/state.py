"""The state of one provider that all processes share, as a pure state machine.

Requests and tokens pass a generic cell rate algorithm (ITU-T I.371, "virtual scheduling"): the state is the time at which
the next one is due, and a call gets a place in time. So calls wait in the order in which they asked, and no process has
to ask again before its turn. A limit that 429s teach follows the window of CUBIC (RFC 9438). The rest is a circuit breaker
and a count of calls in progress by process. All times are seconds of the database's clock.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

WINDOW_SECONDS: Final = 60.0
"""Providers count by the minute."""
BURST_SECONDS: Final = 2.0
"""What was not used in this time may be used at once."""
PERMIT_SECONDS: Final = 2.0
"""How long a permit holds. A process borrows a few at a time, and those that it does not use expire."""
FRESH_WAIT_SECONDS: Final = 8.0
MAX_WAIT_SECONDS: Final = 10.0
"""How long a call may wait for its turn in the worker; for longer waits the step is released. The longer a step has been
released already, the nearer its limit is to the maximum, so that newer calls do not overtake it for good.
"""
AGE_SECONDS: Final = 60.0
MAX_RETURN_SECONDS: Final = 60.0
"""A step that is released looks again after this time at the latest, unless the provider asked for a longer pause."""
MIN_RETURN_SECONDS: Final = 2.0
PLACE_PAUSE_SECONDS: Final = 5.0
"""How long a step is released that found no place among the calls in progress."""

DECREASE: Final = 0.85
"""CUBIC's factor. TCP takes 0.7; here a 429 costs nothing but the time of a request."""
GROWTH_SECONDS: Final = 30.0
"""CUBIC's K: in this time after a 429 the rate is back at its former value."""
DOUBLING_SECONDS: Final = 10.0
"""After the first 429, which says little about the limit, the rate doubles in this time, as in TCP's slow start."""
REACTION_SECONDS: Final = 5.0
"""Further 429s in this time after the limit was lowered are part of the same event."""
LEARNED_BURST_SECONDS: Final = 0.25
"""Like BURST_SECONDS, for a learned limit: what a provider allows at once is not known."""
FORGET_SECONDS: Final = 300.0
"""How long after its last 429 a provider has a learned limit."""
JOIN_SECONDS: Final = 10.0
"""In this time after the first 429 the processes report what they sent before it."""
RECENT_SECONDS: Final = 10.0
MEASURE_TOLERANCE: Final = 1.1
MIN_PER_MINUTE: Final = 1.0
DEFAULT_PAUSE_SECONDS: Final = 1.0
"""After a 429 without Retry-After."""
MAX_PAUSE_SECONDS: Final = 3600.0
"""The longest Retry-After that is kept."""
MAX_TOKEN_SECONDS: Final = 3600.0
"""How long calls wait at most for the tokens of earlier ones."""

FAILURES: Final = 5
FAILING_SECONDS: Final = 2.0
"""So many failures without a success in between, over at least this time, are an outage."""
SEPARATE_SECONDS: Final = 3600.0
"""Failures with so much time between them do not belong together."""
FIRST_PROBE_SECONDS: Final = 2.0
MAX_PROBE_SECONDS: Final = 10.0
MAX_DOUBLINGS: Final = 10
PROBE_PATIENCE_SECONDS: Final = 30.0
"""After this time another probe is sent, also if the last one has not ended: its process may be dead."""
MIN_OUTAGE_PAUSE_SECONDS: Final = 8.0
MAX_OUTAGE_PAUSE_SECONDS: Final = 20.0
"""How long a step is released at the beginning of an outage."""
LONG_OUTAGE_SECONDS: Final = 60.0
"""From this age of the outage on, its pauses grow, because many steps that look often cost much processor time."""
MAX_FURTHER_SECONDS: Final = 16.0
"""How much longer the pauses become."""
MAX_RETURN_FROM_OUTAGE_SECONDS: Final = 46.0
"""Longest time from the answer of a provider that works again until a step looks, if a probe that fails ends at once: the
next probe and a pause. The rest of a minute is for its call.
"""

QUOTA_LOOK_SECONDS: Final = 3600.0
"""Between two probes of a provider whose quota is used up."""
MAX_QUOTA_PAUSE_SECONDS: Final = 600.0
"""How long a step is released meanwhile."""

HOLDER_SECONDS: Final = 30.0
"""After this time without a sign of a process, its places are free."""
ASKING_SECONDS: Final = 3.0
"""How recently a process must have asked for a place to be waiting for it."""
_EPSILON: Final = 1e-6

Json = dict[str, Any]


@dataclass(frozen=True)
class Limits:
    """What the settings allow; None is no limit."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    concurrency: int | None = None

    @property
    def are_set(self) -> bool:
        return any(getattr(self, each.name) is not None for each in fields(self))


@dataclass(frozen=True)
class Want:
    """A call that asks for a permit."""

    tokens: int = 0
    waited_seconds: float = 0.0
    """Since its step was first released."""
    max_wait_seconds: float | None = None
    """If set, the call is left out rather than waited for longer than this, and is no probe."""
    may_probe: bool = True
    """False if the provider is probed by requests of their own."""

    @property
    def horizon_seconds(self) -> float:
        """How far ahead its turn may be."""
        if self.max_wait_seconds is not None:
            return self.max_wait_seconds
        waited = max(self.waited_seconds, 0.0)  # less if the clock was set back
        share = waited / (waited + AGE_SECONDS)
        return FRESH_WAIT_SECONDS + (MAX_WAIT_SECONDS - FRESH_WAIT_SECONDS) * share


@dataclass(frozen=True)
class Permit:
    at: float
    """When the call may be sent, at the earliest."""
    is_probe: bool = False


@dataclass(frozen=True)
class Refusal:
    """The call must not be sent. Its step is to be released until then."""

    until: float
    is_outage: bool = False


@dataclass(frozen=True)
class Wait:
    """There is no place among the calls in progress. Ask again soon."""


Answer = Permit | Refusal | Wait


@dataclass(frozen=True)
class Demand:
    """What one process asks for, and what it tells."""

    wants: Sequence[Want] = ()
    running: int = 0
    """Its calls in progress."""
    accepted: int = 0
    """Its calls in the last minute that the provider did not refuse."""
    recent: int = 0
    """Those of the last RECENT_SECONDS."""
    spare: int = 0
    """Further permits that it would use soon."""
    uncounted_tokens: int = 0
    """Tokens of ended calls beyond what their permits were counted with; less than zero if there were fewer."""


@dataclass(frozen=True)
class Grant:
    answers: tuple[Answer, ...]
    spare: tuple[Permit, ...] = ()


@dataclass
class Holder:
    """One process."""

    seen_at: float
    accepted: int = 0
    recent: int = 0
    held: int = 0
    """Places of calls in progress that it may use."""
    waiting_since: float | None = None
    """Since when it has waited for a place."""


@dataclass
class ProviderState:
    next_request_at: float = 0.0
    next_token_at: float = 0.0
    tokens_per_minute: float | None = None
    """The limit by which `next_token_at` was counted."""
    next_return_at: float = 0.0
    """When the next released step gets its turn."""
    paused_until: float = 0.0
    """The provider asked for no request until then."""
    first_limited_at: float | None = None
    limited_at: float | None = None
    """When the learned limit was last lowered; with the pause that was asked for."""
    reductions: int = 0
    peak_per_minute: float = 0.0
    """The learned limit before it was last lowered."""
    failures: int = 0
    """Without a success in between."""
    failing_since: float | None = None
    failed_at: float = 0.0
    """When the last of these failures was."""
    unavailable_since: float | None = None
    probe_at: float = 0.0
    """When the next call is sent to an unavailable provider."""
    probes: int = 0
    is_quota: bool = False
    """Return whether the quota of the provider's plan is used up."""
    returned_at: float = 0.0
    """When the last outage ended."""
    error: str = ""
    """The last failure or refusal."""
    holders: dict[str, Holder] = field(default_factory=dict)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "ProviderState":
        """Ignores fields of a newer version."""
        known = {each.name for each in fields(cls)}
        values = {name: value for name, value in stored.items() if name in known}
        names = {each.name for each in fields(Holder)}
        values["holders"] = {
            key: Holder(**{name: value for name, value in holder.items() if name in names})
            for key, holder in values.get("holders", {}).items()
        }
        return cls(**values)

    def as_json(self) -> Json:
        return asdict(self)

    def copy(self) -> "ProviderState":
        return replace(self, holders={key: replace(each) for key, each in self.holders.items()})

    def restricts(self, now: float) -> bool:
        """Whether calls need a permit though the settings set no limit."""
        return (
            self.unavailable_since is not None
            or self.paused_until > now
            or self.learned_per_minute(now) is not None
        )

    def learned_per_minute(self, now: float) -> float | None:
        """The limit of requests that 429s have taught; None if there is none."""
        if self.limited_at is None or now - self.limited_at > FORGET_SECONDS:
            return None
        elapsed = max(now - self.limited_at, 0.0)
        if self.reductions <= 1:
            factor: float = DECREASE * 2.0 ** (elapsed / DOUBLING_SECONDS)
        else:
            factor = 1 + (1 - DECREASE) * ((elapsed - GROWTH_SECONDS) / GROWTH_SECONDS) ** 3
        return max(self.peak_per_minute * factor, MIN_PER_MINUTE)

    def grant(
        self, limits: Limits, now: float, holder: str, demand: Demand, chance: float
    ) -> Grant:
        """Answers the calls of `holder`, in their order. `chance` is random, from 0 to 1: it spreads the returns."""
        own = self._see(now, holder, demand)
        self._correct_times(limits, now)
        self._count_tokens(limits, now, demand.uncounted_tokens)
        if self.unavailable_since is not None:
            answered = tuple(self._during_outage(now, demand.wants, chance))
            own.waiting_since = None
            self._hold(limits, own, demand, answered)
            return Grant(answered)
        places = self._assign_places(limits, now, own, demand)
        answers: list[Answer] = []
        for want in demand.wants:
            at = self._turn(limits, now, want.tokens)
            if at > now + want.horizon_seconds and want.max_wait_seconds is not None:
                answers.append(Refusal(at))
            elif at > now + want.horizon_seconds:
                answers.append(self._come_back(limits, now, at, chance))
            elif places <= 0:
                answers.append(Wait())
            else:
                places -= 1
                answers.append(self._take(limits, now, at, want.tokens))
        self._hold(limits, own, demand, answers)
        return Grant(tuple(answers), self._spare(limits, now, demand))

    def leave(self, holder: str) -> None:
        """The process ends: its places are free."""
        if (own := self.holders.get(holder)) is not None:
            own.held, own.waiting_since = 0, None

    def answered(self, now: float) -> None:
        """The provider has answered a call."""
        if self.unavailable_since is not None:
            self.returned_at = now
        self.failures, self.failing_since = 0, None
        self.unavailable_since, self.probes, self.is_quota = None, 0, False

    def used_up(self, now: float, error: str, retry_after: float | None) -> None:
        """The provider has refused a call because the quota of its plan is used up."""
        if not self.is_quota:
            self.unavailable_since, self.is_quota, self.probes = now, True, 0
        self.error = error
        pause = QUOTA_LOOK_SECONDS if retry_after is None else retry_after
        self.probe_at = now + min(max(pause, FIRST_PROBE_SECONDS), QUOTA_LOOK_SECONDS)

    def refused(
        self,
        now: float,
        holder: str,
        *,
        sent_at: float,
        accepted: int,
        recent: int,
        retry_after: float | None,
        error: str,
    ) -> None:
        """The provider has refused a call with 429. It works, so an outage is over."""
        self.answered(now)
        self._see(now, holder, Demand(accepted=accepted, recent=recent))
        rate = self.learned_per_minute(now)
        # Calls that were sent before the limit was lowered say nothing about the new one.
        is_new = (
            rate is None or self.limited_at is None or sent_at >= self.limited_at + REACTION_SECONDS
        )
        pause = DEFAULT_PAUSE_SECONDS if retry_after is None else retry_after
        self.paused_until = max(self.paused_until, now + pause)
        self.error = error
        if not is_new:
            return
        if rate is None:
            self.first_limited_at, self.reductions = now, 0
            # A short pause says how fast the provider permits calls, if they were sent at once until now.
            hint = WINDOW_SECONDS / max(pause, DEFAULT_PAUSE_SECONDS)
            self.peak_per_minute = max(self._counted(), hint)
        else:
            # A provider that asks for a long pause counts by the minute: what it accepted lately says less.
            counts_minutes = pause >= RECENT_SECONDS
            measured = self._counted() if counts_minutes else self._measured()
            self.peak_per_minute = min(self._granted(now, rate), MEASURE_TOLERANCE * measured)
        self.reductions += 1
        self.limited_at = self.paused_until

    def failed(
        self, now: float, error: str, *, is_probe: bool = False, is_confirmed: bool = True
    ) -> None:
        """A call was not answered: no connection, an error of the server, or no first byte in time.

        If `is_confirmed` is False, the failure alone is no outage: a probe must fail too. See `is_suspect`.
        """
        if self.unavailable_since is not None:
            if is_probe:
                # Bounded, because the power of a larger number is no float.
                self.probes = min(self.probes + 1, MAX_DOUBLINGS)
                self.probe_at = now + min(FIRST_PROBE_SECONDS * 2.0**self.probes, MAX_PROBE_SECONDS)
                self.error = self.error if self.is_quota else error
            return
        if self.failing_since is None or now - self.failed_at > SEPARATE_SECONDS:
            self.failing_since, self.failures = now, 0
        self.failing_since = min(self.failing_since, now)
        self.failed_at = now
        self.failures += 1
        self.error = error
        if self.is_suspect and is_confirmed:
            self.unavailable_since, self.probes = self.failing_since, 0
            self.probe_at = now + FIRST_PROBE_SECONDS

    @property
    def is_suspect(self) -> bool:
        """Whether so many calls have failed that the provider is unavailable, unless it answers a probe."""
        since = self.failing_since
        has_failed_long = since is not None and self.failed_at - since >= FAILING_SECONDS
        return self.unavailable_since is None and has_failed_long and self.failures >= FAILURES

    def is_probe_due(self, now: float) -> bool:
        """Whether an unavailable provider is to be called now. A time far ahead is that of a clock that was set back."""
        longest = QUOTA_LOOK_SECONDS if self.is_quota else PROBE_PATIENCE_SECONDS
        return not now < self.probe_at <= now + longest

    def begin_probe(self, now: float) -> bool:
        """Whether the caller is to probe the provider now. No other one is, for a while."""
        if self.unavailable_since is None or not self.is_probe_due(now):
            return False
        self.probe_at = now + PROBE_PATIENCE_SECONDS
        return True

    def _correct_times(self, limits: Limits, now: float) -> None:
        """Bounds what lies ahead by what `limits` can lead to. Beyond that are times of a clock that was set back, as after
        a restore, and of limits that the settings had before.
        """
        self.paused_until = min(self.paused_until, now + MAX_PAUSE_SECONDS)
        latest = max(now, self.paused_until)
        if self.limited_at is not None:
            self.limited_at = min(self.limited_at, latest)
        if self.unavailable_since is not None:
            self.unavailable_since = min(self.unavailable_since, now)
        latest += MAX_WAIT_SECONDS + BURST_SECONDS
        seconds = self._request_seconds(limits, now)
        self.next_request_at = min(self.next_request_at, latest + seconds)
        self.next_return_at = min(self.next_return_at, latest + MAX_RETURN_SECONDS + seconds)
        self._correct_tokens(limits, now, latest)

    def _correct_tokens(self, limits: Limits, now: float, latest: float) -> None:
        if limits.tokens_per_minute is None:
            return
        counted_by = self.tokens_per_minute or limits.tokens_per_minute
        if counted_by < limits.tokens_per_minute and self.next_token_at > now:
            ahead = (self.next_token_at - now) * counted_by / limits.tokens_per_minute
            self.next_token_at = now + ahead
        self.tokens_per_minute = limits.tokens_per_minute
        self.next_token_at = min(self.next_token_at, latest + MAX_TOKEN_SECONDS)

    def _see(self, now: float, holder: str, demand: Demand) -> Holder:
        self.holders = {
            key: each
            for key, each in self.holders.items()
            if now - each.seen_at < (HOLDER_SECONDS if each.held else WINDOW_SECONDS)
        }
        for each in self.holders.values():
            # Later times are those of a clock that was set back.
            each.seen_at = min(each.seen_at, now)
            if each.waiting_since is not None:
                each.waiting_since = min(each.waiting_since, now)
        is_new = holder not in self.holders
        own = self.holders.setdefault(holder, Holder(now))
        own.seen_at, own.accepted, own.recent = now, demand.accepted, demand.recent
        first = self.first_limited_at
        if is_new and first is not None and now - first < JOIN_SECONDS and self.reductions == 1:
            self.peak_per_minute = max(self.peak_per_minute, self._counted())
        return own

    def _counted(self) -> float:
        """Requests that the provider accepted in the last minute, as far as is known. Before the first 429 they may all have
        been sent at once.
        """
        return max(float(sum(each.accepted for each in self.holders.values())), MIN_PER_MINUTE)

    def _measured(self) -> float:
        """Requests a minute that the provider accepted lately, as far as is known."""
        recent = sum(each.recent for each in self.holders.values())
        return max(self._counted(), recent * WINDOW_SECONDS / RECENT_SECONDS)

    def _granted(self, now: float, rate: float) -> float:
        """The limit when the calls of this moment got their turns."""
        ahead = min(max(self.next_request_at - now, 0.0), MAX_WAIT_SECONDS)
        return self.learned_per_minute(now - ahead) or rate

    def _during_outage(self, now: float, wants: Sequence[Want], chance: float) -> Iterable[Answer]:
        for number, want in enumerate(wants):
            # A call that can be left out probes only if no other has for long.
            is_patient = (
                want.max_wait_seconds is None or now - self.probe_at > PROBE_PATIENCE_SECONDS
            )
            if want.may_probe and is_patient and self.begin_probe(now):
                yield Permit(now, is_probe=True)
                continue
            # Each of them a little later than the one before: they would all come at once.
            share = (chance + number * 0.618) % 1.0
            yield Refusal(now + self.outage_pause_seconds(now, share), is_outage=True)

    def outage_pause_seconds(self, now: float, share: float) -> float:
        """The pause of a step, longer in a long outage. With the time until the next probe it is less than a minute, unless
        a quota is used up.
        """
        if self.is_quota:
            until_probe = min(max(self.probe_at - now, 0.0), MAX_QUOTA_PAUSE_SECONDS)
            return until_probe + MIN_OUTAGE_PAUSE_SECONDS * (1 + share)
        span = MAX_OUTAGE_PAUSE_SECONDS - MIN_OUTAGE_PAUSE_SECONDS
        age = now - (now if self.unavailable_since is None else self.unavailable_since)
        further = min((age - LONG_OUTAGE_SECONDS) / 4, MAX_FURTHER_SECONDS)
        until_probe = self.probe_at - now
        room = MAX_RETURN_FROM_OUTAGE_SECONDS - MAX_OUTAGE_PAUSE_SECONDS - until_probe
        return MIN_OUTAGE_PAUSE_SECONDS + share * span + max(min(further, room), 0.0)

    def _request_seconds(self, limits: Limits, now: float) -> float:
        """Seconds between two requests. With a limit of the settings, so many that no minute has more, even if permits are
        used as late as possible and what was unused before is used at once.
        """
        seconds = 0.0
        if limits.requests_per_minute is not None:
            seconds = _seconds_each(limits.requests_per_minute)
        learned = self.learned_per_minute(now)
        return seconds if learned is None else max(seconds, WINDOW_SECONDS / learned)

    def _turn(self, limits: Limits, now: float, tokens: int) -> float:
        """When a call may be sent."""
        at = max(now, self.paused_until)
        if self._request_seconds(limits, now):
            is_learned = self.learned_per_minute(now) is not None
            burst_seconds = LEARNED_BURST_SECONDS if is_learned else BURST_SECONDS
            at = max(at, self.next_request_at - burst_seconds)
        if limits.tokens_per_minute is not None and tokens:
            at = max(at, self.next_token_at - BURST_SECONDS)
        return at

    def _take(self, limits: Limits, now: float, at: float, tokens: int) -> Permit:
        if seconds := self._request_seconds(limits, now):
            self.next_request_at = max(self.next_request_at, at) + seconds
        if limits.tokens_per_minute is not None and tokens:
            seconds = _seconds_each(limits.tokens_per_minute) * tokens
            self.next_token_at = max(self.next_token_at, at) + seconds
        return Permit(at)

    def _spare(self, limits: Limits, now: float, demand: Demand) -> tuple[Permit, ...]:
        """Permits that can be used now. None in the future: they would be lost if they are not used."""
        if limits.tokens_per_minute is not None or limits.concurrency is not None:
            return ()
        spare: list[Permit] = []
        while len(spare) < demand.spare and self._turn(limits, now, 0) <= now:
            spare.append(self._take(limits, now, now, 0))
        return tuple(spare)

    def _come_back(self, limits: Limits, now: float, at: float, chance: float) -> Refusal:
        """One after the other, at the times when there is room for them."""
        latest = max(now, self.paused_until) + MAX_RETURN_SECONDS
        turn = max(self.next_return_at, at)
        until = turn - FRESH_WAIT_SECONDS
        if until > latest:
            return Refusal(latest - chance * MAX_RETURN_SECONDS / 2)
        self.next_return_at = turn + max(self._request_seconds(limits, now), 0.05)
        return Refusal(max(until, now + MIN_RETURN_SECONDS))

    def _count_tokens(self, limits: Limits, now: float, tokens: int) -> None:
        if limits.tokens_per_minute is not None and tokens:
            seconds = _seconds_each(limits.tokens_per_minute) * tokens
            self.next_token_at = max(self.next_token_at, now - BURST_SECONDS) + seconds

    def _hold(self, limits: Limits, own: Holder, demand: Demand, answers: Iterable[Answer]) -> None:
        """The process holds a place for each of its calls, and for each that may begin now."""
        if limits.concurrency is not None:
            own.held = demand.running + sum(isinstance(each, Permit) for each in answers)

    def _assign_places(self, limits: Limits, now: float, own: Holder, demand: Demand) -> float:
        """Assigns places among the calls in progress; returns how many more calls the process may begin.

        A process keeps places while no other waits for one. Else it gets its share at most, and frees the places of ended
        calls for those that have waited longer.
        """
        if limits.concurrency is None:
            return float("inf")
        others = [each for each in self.holders.values() if each is not own]
        wanted = len(demand.wants)
        free = limits.concurrency - sum(each.held for each in others) - demand.running
        waiting = [
            each
            for each in others
            if each.waiting_since is not None and now - each.seen_at < ASKING_SECONDS
        ]
        since = now if own.waiting_since is None else own.waiting_since
        earlier = sum(
            each.waiting_since is not None and each.waiting_since < since for each in waiting
        )
        more = min(wanted, max(free - earlier, 0))
        if waiting:
            users = 1 + sum(bool(each.held) or each in waiting for each in others)
            # Rounded up, or the rest would stay unused; all together cannot exceed what is free.
            more = min(more, max(-(-limits.concurrency // users) - demand.running, 0))
        # Who gets a place goes to the end of those that wait.
        own.waiting_since = None if more >= wanted else now if more else since
        return more


def _seconds_each(per_minute: float) -> float:
    return (WINDOW_SECONDS + BURST_SECONDS + PERMIT_SECONDS) / per_minute + _EPSILON
