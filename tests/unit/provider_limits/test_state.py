"""The shared state of a provider: no minute has more than its limit, every call gets its turn, outages end."""

import random
from collections import Counter
from functools import partial
from itertools import pairwise

import pytest

from shared.provider_limits.state import (
    FAILURES,
    FORGET_SECONDS,
    Demand,
    Limits,
    Permit,
    ProviderState,
    Refusal,
    Wait,
    Want,
)
from tests.support.marks import slow
from tests.support.providers.walk import Walk, most_in_a_minute

SEEDS = [0, *slow(*range(1, 20))]
START = 1000.0


def random_walk(seed: int) -> Walk:
    """A random number of processes with bursts of calls, under random limits."""
    chance = random.Random(seed)
    limits = Limits(
        requests_per_minute=chance.choice((None, 1, 3, 30, 61.5, 600)),
        tokens_per_minute=chance.choice((None, 1000, 100_000)),
        concurrency=chance.choice((None, 1, 2, 7, 40)),
    )
    walk = Walk(seed, limits, chance.randint(1, 9))
    calls = 12 if limits.requests_per_minute in (1, 3) else 300
    for number in range(walk.processes):
        walk.at(START, partial(walk.renew_forever, f"p{number}"))
    for _ in range(calls):
        process = f"p{chance.randrange(walk.processes)}"
        at = START + chance.choice((0.0, 5.0, chance.uniform(0, 120)))
        tokens, seconds = chance.randint(0, 400), chance.choice((0.1, 2.0, 20.0))
        walk.at(at, partial(walk.begin_call, process, tokens=tokens, seconds=seconds))
    return walk


@pytest.mark.parametrize("seed", SEEDS)
def test_no_minute_has_more_than_the_limits_allow_and_every_call_gets_its_turn(seed: int) -> None:
    walk = random_walk(seed)
    walk.run(START + 200_000)
    limits = walk.limits
    assert not walk.waiting
    if limits.requests_per_minute is not None:
        assert most_in_a_minute(walk.sent) <= limits.requests_per_minute
    if limits.tokens_per_minute is not None:
        most = most_in_a_minute(walk.sent, tokens=True)
        assert most <= limits.tokens_per_minute + 400, "a call is not divided"
    if limits.concurrency is not None:
        assert walk.max_running <= limits.concurrency


@pytest.mark.parametrize("seed", SEEDS)
def test_no_call_is_overtaken_for_good(seed: int) -> None:
    """A hundred steps, each of which begins its next call when the last one has ended."""
    walk = Walk(seed, Limits(requests_per_minute=60), 8)
    begun = Counter[int]()

    def work(step: int) -> None:
        if begun[step] == sum(call.step == step for call in walk.ended):
            walk.begin_call(f"p{step % 8}", step=step)
            begun[step] += 1
        walk.at(walk.now + 2.0, partial(work, step))

    for step in range(100):
        walk.at(START + step / 50, partial(work, step))
    walk.run(START + 900)
    waits = [call.sent_at - call.begun_at for call in walk.ended if call.sent_at is not None]
    assert len(waits) >= 0.9 * 900
    waits += [walk.now - call.begun_at for call in walk.waiting]
    fair_seconds = 100 * 64 / 60
    assert max(waits) <= 4 * fair_seconds


def test_a_limit_of_the_settings_is_used() -> None:
    walk = Walk(1, Limits(requests_per_minute=60), 4)
    for number in range(400):
        walk.at(START, partial(walk.begin_call, f"p{number % 4}"))
    walk.run(START + 180)
    assert len(walk.sent) >= 0.9 * 180


class TokenBucket:
    """A provider that permits `per_minute`, and a burst."""

    def __init__(self, per_minute: float, burst: float) -> None:
        self._each = 60 / per_minute
        self._burst = burst
        self._left, self._at = burst, START

    def __call__(self, now: float) -> float | None:
        self._left = min(self._left + (now - self._at) / self._each, self._burst)
        self._at = now
        if self._left < 1:
            return (1 - self._left) * self._each
        self._left -= 1
        return None


class SlidingMinute:
    """A provider that permits `per_minute` in any minute."""

    def __init__(self, per_minute: int) -> None:
        self._limit = per_minute
        self._accepted: list[float] = []

    def __call__(self, now: float) -> float | None:
        self._accepted = [at for at in self._accepted if at > now - 60]
        if len(self._accepted) >= self._limit:
            return self._accepted[-self._limit] + 60 - now
        self._accepted.append(now)
        return None


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    "provider",
    [partial(TokenBucket, 60, 6), partial(TokenBucket, 600, 20), partial(SlidingMinute, 90)],
)
def test_a_limit_that_is_learned_from_429s_is_used_and_seldom_exceeded(
    provider: partial[TokenBucket], seed: int
) -> None:
    limit = provider.args[0]
    walk = Walk(seed, Limits(), 8, provider())

    def work(process: str) -> None:
        if len([call for call in walk.waiting if call.process == process]) < 5:
            walk.begin_call(process, seconds=0.5)
        walk.at(walk.now + 0.2, partial(work, process))

    for number in range(8):
        walk.at(START, partial(work, f"p{number}"))
    walk.run(START + 360)
    accepted = [at for at in walk.accepted if at > START + 60]
    assert len(accepted) >= 0.9 * limit * 5
    refused = len(walk.sent) - len(walk.accepted)
    assert refused < 0.2 * len(walk.sent)


def test_a_learned_limit_is_forgotten() -> None:
    state = ProviderState()
    state.refused(START, "p", sent_at=START, accepted=30, recent=30, retry_after=None, error="429")
    assert state.restricts(START + 10)
    assert not state.restricts(START + FORGET_SECONDS + 2)


def test_retry_after_pauses_every_process() -> None:
    state = ProviderState()
    state.refused(START, "p1", sent_at=START, accepted=30, recent=30, retry_after=20, error="429")
    for number in range(50):
        grant = state.grant(Limits(), START + 1 + number / 10, f"p{number}", Demand([Want()]), 0.5)
        assert all(
            isinstance(answer, Refusal) and answer.until >= START + 12 for answer in grant.answers
        )
    times = sorted(
        answer.at
        for number in range(12)
        for answer in state.grant(Limits(), START + 12, f"p{number}", Demand([Want()]), 0.5).answers
        if isinstance(answer, Permit)
    )
    assert times[0] >= START + 20
    assert len(times) <= 3, "all others come later"


def test_refusals_of_calls_that_were_sent_before_count_once() -> None:
    state = ProviderState()
    for _ in range(20):
        state.refused(
            START, "p1", sent_at=START - 1, accepted=60, recent=60, retry_after=1, error="429"
        )
    assert state.reductions == 1
    assert state.learned_per_minute(START + 1) == pytest.approx(60 * 0.85)


def test_an_outage_needs_several_failures_without_a_success() -> None:
    state = ProviderState()
    for number in range(10 * FAILURES):
        state.failed(START + number, "refused")
        if number % (FAILURES - 1) == 0:
            state.answered(START + number)
    state.answered(START + 10 * FAILURES)
    assert state.unavailable_since is None
    for _ in range(FAILURES):
        state.failed(START + 100, "refused")
    assert state.unavailable_since is None, "within a moment"
    state.failed(START + 103, "refused")
    assert state.unavailable_since == START + 100


@pytest.mark.parametrize("seed", SEEDS)
def test_few_calls_are_sent_during_an_outage_and_all_go_on_within_a_minute(seed: int) -> None:
    begin, end = START + 30, START + 30 + 3600
    walk = Walk(seed, Limits(), 6, lambda now: "connection refused" if begin <= now < end else None)
    chance = random.Random(seed)
    for number in range(chance.choice((1, 5, 200))):
        process = f"p{number % 6}"
        walk.at(begin + chance.uniform(0, 20), partial(walk.begin_call, process))
    walk.run(end)
    assert walk.waiting
    assert not walk.accepted
    assert len(walk.probes) <= 3600 / 10 + 5
    assert max(later - earlier for earlier, later in pairwise(walk.probes)) <= 30 + 20
    walk.run(end + 60)
    assert not walk.waiting
    assert walk.state.unavailable_since is None


def test_places_of_a_dead_process_are_freed() -> None:
    state, limits = ProviderState(), Limits(concurrency=2)
    first = state.grant(limits, START, "dead", Demand([Want(), Want()]), 0.5)
    assert first.answers == (Permit(START), Permit(START))
    later = state.grant(limits, START + 5, "alive", Demand([Want()]), 0.5)
    assert later.answers == (Wait(),)
    grant = state.grant(limits, START + 31, "alive", Demand([Want()]), 0.5)
    assert grant.answers == (Permit(START + 31),)


def test_spare_permits_are_part_of_the_limit() -> None:
    state, limits = ProviderState(), Limits(requests_per_minute=600)
    grants = [
        state.grant(limits, START, f"p{number}", Demand([Want()], spare=10), 0.5)
        for number in range(10)
    ]
    given = sum(
        len(grant.spare) + sum(answer == Permit(START) for answer in grant.answers)
        for grant in grants
    )
    assert given == int(2 / (64 / 600)) + 1


def test_a_state_of_a_newer_version_can_be_read() -> None:
    state = ProviderState()
    state.grant(Limits(concurrency=1), START, "p", Demand([Want()]), 0.5)
    stored = state.as_json()
    newer = {**stored, "later": 1, "holders": {"p": {**stored["holders"]["p"], "later": 2}}}
    assert ProviderState.from_json(newer) == state


def make_outage(now: float = START) -> ProviderState:
    state = ProviderState()
    for number in range(FAILURES):
        state.failed(now + number, "refused")
    assert state.unavailable_since == now
    return state


def test_an_outage_of_a_day_is_probed_all_the_time() -> None:
    state, now, probes = make_outage(), START + FAILURES, 0
    while now < START + 86_400:
        (answer,) = state.grant(Limits(), now, "p", Demand([Want()]), 0.5).answers
        if isinstance(answer, Permit):
            probes += 1
            state.failed(now, "refused", is_probe=True)
            assert now < state.probe_at <= now + 10
        now += 5.0
    assert probes > 5000


def test_an_old_failure_is_no_part_of_an_outage() -> None:
    state = ProviderState()
    for number in range(FAILURES - 1):
        state.failed(START + number, "refused")
    day = START + 86_400
    state.failed(day, "refused")
    assert state.unavailable_since is None
    for number in range(FAILURES):
        state.failed(day + number, "refused")
    assert state.unavailable_since == day


HOURS = 5 * 3600.0


@pytest.mark.parametrize(
    "limits",
    [Limits(requests_per_minute=60), Limits(tokens_per_minute=6000), Limits(concurrency=1)],
)
def test_a_clock_that_was_set_back_blocks_no_call_for_long(limits: Limits) -> None:
    """As after a restore on another machine."""
    state = ProviderState()
    state.grant(limits, START + HOURS, "gone", Demand([Want(tokens=100)]), 0.5)
    walk = Walk(1, limits, 2, state=state)
    walk.at(START, partial(walk.begin_call, "p", tokens=100))
    walk.run(START + 3700)
    assert not walk.waiting
    if limits.tokens_per_minute is None:
        assert walk.ended[0].sent_at is not None
        assert walk.ended[0].sent_at <= START + 100


def test_a_clock_that_was_set_back_ends_no_probes() -> None:
    state = make_outage(START + HOURS)
    grant = state.grant(Limits(), START, "p", Demand([Want()]), 0.5)
    assert grant.answers == (Permit(START, is_probe=True),)
    state.answered(START)
    for number in range(2 * FAILURES):
        state.failed(START + number, "refused")
    assert state.unavailable_since == START


def test_a_clock_that_was_set_back_ends_a_pause_within_an_hour() -> None:
    state = ProviderState()
    later = START + HOURS
    state.refused(later, "p", sent_at=later, accepted=60, recent=9, retry_after=3600, error="429")
    state.grant(Limits(), START, "p", Demand([Want()]), 0.5)
    assert state.paused_until <= START + 3600
    assert not state.restricts(START + 3600 + FORGET_SECONDS + 1)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (Limits(requests_per_minute=0.001), Limits(requests_per_minute=60)),
        (Limits(tokens_per_minute=1), Limits(tokens_per_minute=100_000)),
    ],
)
def test_a_limit_that_was_set_wrong_blocks_nothing_once_it_is_corrected(
    wrong: Limits, right: Limits
) -> None:
    state = ProviderState()
    for _ in range(3):
        state.grant(wrong, START, "p", Demand([Want(tokens=2000)], uncounted_tokens=500), 0.5)
    state = ProviderState.from_json(state.as_json())
    (answer,) = state.grant(right, START + 60, "p", Demand([Want(tokens=2000)]), 0.5).answers
    assert isinstance(answer, Permit | Refusal)
    assert (answer.at if isinstance(answer, Permit) else answer.until) <= START + 65


def test_a_call_that_does_not_wait_takes_no_turn_of_others() -> None:
    """Embeddings are left out rather than waited for."""
    state, limits = ProviderState(), Limits(requests_per_minute=60)
    before = state.copy()
    while True:
        want = Want(max_wait_seconds=1.0)
        (answer,) = state.grant(limits, START, "p", Demand([want]), 0.5).answers
        if isinstance(answer, Refusal):
            break
        assert isinstance(answer, Permit)
        assert answer.at <= START + 1
        before = state.copy()
    assert state == before


@pytest.mark.parametrize("age", [60, 600, 6000])
def test_in_a_long_outage_steps_look_less_often(age: float) -> None:
    state = make_outage()
    now = START + age
    state.probe_at = now + 5
    chances = [number / 100 for number in range(100)]
    pauses = [
        answer.until - now
        for chance in chances
        for answer in state.grant(Limits(), now, "p", Demand([Want()]), chance).answers
        if isinstance(answer, Refusal)
    ]
    assert len(pauses) == len(chances)
    mean = sum(pauses) / len(pauses)
    if age < 80:
        assert 8 <= min(pauses) < 9
        assert 19 < max(pauses) <= 20
    else:
        assert mean > 29
    assert max(pauses) - min(pauses) > 8, "not all at once"
    # While a probe is in flight, which may take 30 s.
    state.probe_at = now + 30
    (answer,) = state.grant(Limits(), now, "p", Demand([Want()]), 0.999).answers
    assert isinstance(answer, Refusal)
    assert answer.until <= now + 30


@pytest.mark.parametrize(("processes", "concurrency"), [(2, 3), (3, 5), (4, 7), (3, 10)])
def test_all_places_are_used_while_processes_wait(processes: int, concurrency: int) -> None:
    state, limits = ProviderState(), Limits(concurrency=concurrency)
    running = dict.fromkeys(map(str, range(processes)), 0)
    used: list[int] = []
    for turn in range(200):
        for name in running:
            demand = Demand([Want()] * 8, running[name])
            answers = state.grant(limits, START + turn, name, demand, 0.5).answers
            running[name] += sum(isinstance(each, Permit) for each in answers)
            assert sum(running.values()) <= concurrency
        used.append(sum(running.values()))
        name = str(turn % processes)
        running[name] = max(running[name] - 1, 0)  # a call ends
    settled = used[20:]
    assert sum(settled) / len(settled) > concurrency - 0.5


def test_a_call_that_can_be_left_out_probes_if_no_other_has_for_long() -> None:
    """As embeddings of a provider that answers no other calls."""
    state = ProviderState(unavailable_since=START, probe_at=START)
    can_be_left_out = Demand([Want(max_wait_seconds=1.0)])

    def is_probe(now: float) -> bool:
        [answer] = state.grant(Limits(), now, "p", can_be_left_out, 0.5).answers
        return isinstance(answer, Permit) and answer.is_probe

    assert not is_probe(START + 1)
    assert is_probe(START + 40)


def test_a_process_that_waits_since_a_time_to_come_waits_no_longer_than_others() -> None:
    """The clock of the database was set back."""
    state, limits = ProviderState(), Limits(concurrency=1)
    for name in ("waiting", "working"):
        state.grant(limits, START + 3600, name, Demand([Want()], int(name == "working")), 0.5)
    served = []
    for turn in range(6):
        for name in ("waiting", "working"):
            [answer] = state.grant(limits, START + turn, name, Demand([Want()]), 0.5).answers
            if isinstance(answer, Permit):
                served.append(name)
                state.leave(name)  # the call has ended
    assert {"waiting", "working"} == set(served)


@pytest.mark.parametrize("seconds", [-61.0, -60.0, -59.9, -1.0])
def test_a_wait_that_began_in_the_future_has_the_horizon_of_a_new_one(seconds: float) -> None:
    assert Want(waited_seconds=seconds).horizon_seconds == Want().horizon_seconds
