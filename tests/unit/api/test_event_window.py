"""The replay buffer and a listener's position: no event is lost or repeated."""

import gc
from dataclasses import dataclass, field
from random import Random
from uuid import UUID, uuid4

import pytest

from services.api.streaming import event_window as module
from services.api.streaming.event_window import BufferedEvent, Cursor, Gap, ReplayBuffer, chunk
from tests.support.seeds import repeatable

OWNER, AGENT = UUID(int=1), UUID(int=2)
SIMULATIONS = 1_000
STEPS = 120


def buffered_event(sequence: int, size: int = 10) -> BufferedEvent:
    return BufferedEvent(sequence, "query.completed", AGENT, OWNER, b"x" * size)


def sequences_of(events: object) -> list[int]:
    assert isinstance(events, list), events
    return [event.sequence for event in events]


def buffer_with(
    *event_numbers: int, max_events: int = 100, max_bytes: int = 10_000
) -> ReplayBuffer:
    buffer = ReplayBuffer(max_events, max_bytes)
    buffer.begin(0, new_stream_from=0)
    for sequence in event_numbers:
        buffer.extend([buffered_event(sequence)], sequence, sequence)
    return buffer


def test_events_behind_a_position_are_returned() -> None:
    buffer = buffer_with(1, 2)
    buffer.extend([buffered_event(5)], 3, 5)
    assert sequences_of(buffer.behind(0)) == [1, 2, 5]
    assert sequences_of(buffer.behind(2)) == [5]
    assert sequences_of(buffer.behind(3)) == [5]
    assert sequences_of(buffer.behind(5)) == []
    assert sequences_of(buffer.behind(9)) == []


def test_the_oldest_events_are_evicted_by_count_and_by_size() -> None:
    buffer = buffer_with(*range(1, 11), max_events=3)
    assert (buffer.after, buffer.last) == (7, 10)
    assert sequences_of(buffer.behind(7)) == [8, 9, 10]
    assert buffer.behind(6) is None
    small = buffer_with(1, 2, 3, max_bytes=25)
    assert sequences_of(small.behind(1)) == [2, 3]
    assert small.behind(0) is None
    small.extend([buffered_event(4, size=1000)], 4, 4)
    assert (small.after, sequences_of(small.behind(4))) == (4, [])


def test_events_without_an_owner_only_advance_the_end() -> None:
    buffer = buffer_with(1)
    buffer.extend([], 2, 7)
    assert (buffer.after, buffer.last, sequences_of(buffer.behind(0))) == (0, 7, [1])


def test_a_chunk_is_limited_in_size_but_has_at_least_one_event() -> None:
    large = [buffered_event(1, module.CHUNK_BYTES * 2), buffered_event(2), buffered_event(3)]
    assert sequences_of(chunk(large)) == [1]
    assert sequences_of(chunk(large[1:])) == [2, 3]
    assert chunk([]) == []


def test_a_position_before_the_buffer_is_read_from_the_stream() -> None:
    buffer = buffer_with(1, 2, 3, max_events=2)
    cursor = Cursor(0, buffer.stream)
    assert (cursor.look(buffer), cursor.is_before(buffer)) == (None, True)
    assert cursor.read(1, 1) is None
    assert sequences_of(cursor.look(buffer)) == [2, 3]
    assert not cursor.is_before(buffer)


def test_missing_events_restart_the_buffer_and_are_reported_as_a_gap() -> None:
    buffer = buffer_with(1, 2)
    cursor = Cursor(2, buffer.stream)
    buffer.extend([buffered_event(11)], 11, 11)
    assert cursor.look(buffer) is None
    assert cursor.read(11, 12) == Gap("expired", 3, 10, 10)
    assert cursor.sequence == 12


def test_a_recreated_stream_is_one_gap_and_then_starts_at_its_first_event() -> None:
    buffer = buffer_with(1, 2, 3)
    cursor = Cursor(3, buffer.stream)
    buffer.begin(0, new_stream_from=0)
    buffer.extend([buffered_event(1)], 1, 1)
    assert cursor.look(buffer) == Gap("stream_made_anew", 4, None, 0)
    assert sequences_of(cursor.look(buffer)) == [1]


@dataclass
class Simulation:
    """A minimal model of a stream with retention, a hub that follows it, and a listener.

    NATS may lose its newest events, and then uses their sequences again. Events are numbered in the order in which they are
    published; `stored` maps sequences to these numbers.
    """

    random: Random
    buffer: ReplayBuffer
    stored: dict[int, int] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)
    """Like `stored`, with the events that have expired."""
    last: int = 0
    published: int = 0
    cursor: Cursor | None = None
    position: int = 0
    """Where the listener connects."""
    had: int = 0
    """Number of the newest event that the listener has received, or that a gap has reported."""
    expected: list[int] = field(default_factory=list)
    """Numbers that the listener has not yet received."""
    received: list[int] = field(default_factory=list)

    @property
    def before_first(self) -> int:
        return min(self.stored, default=self.last + 1) - 1

    def publish(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.last += 1
            self.published += 1
            self.stored[self.last] = self.numbers[self.last] = self.published
            self.expected.append(self.published)

    def expire(self) -> None:
        for sequence in list(self.stored)[: self.random.randint(0, len(self.stored))]:
            del self.stored[sequence]

    def lose(self) -> None:
        """NATS loses events, and the hub connects again."""
        lost = list(self.stored)[self.random.randint(0, len(self.stored)) :]
        if not lost:
            return
        numbers = {self.stored.pop(sequence) for sequence in lost}
        self.numbers = {at: number for at, number in self.numbers.items() if at < lost[0]}
        self.last = lost[0] - 1
        self.expected = [number for number in self.expected if number not in numbers]
        if self.last < self.buffer.last:
            self.buffer.begin(self.last, new_stream_from=self.last, has_lost_newest=True)

    def follow(self, limit: int | None = None) -> None:
        """The hub reads the next events."""
        new = [sequence for sequence in self.stored if sequence > self.buffer.last]
        batch = new[: self.random.randint(0, 5) if limit is None else limit]
        if batch:
            self.buffer.extend(self._events(batch), batch[0], batch[-1])

    def restart(self) -> None:
        """The API restarts with a buffer that begins near the stream's end; the listener reconnects with its position."""
        self.buffer = ReplayBuffer(self.buffer.max_events, 10_000)
        after = max(self.before_first, self.last - self.buffer.max_events)
        self.buffer.begin(after, new_stream_from=self.before_first)
        if self.cursor is not None:
            self.position, self.cursor = self.cursor.sequence, None

    def listen(self) -> None:
        if self.cursor is None:
            sequence = self._find(self.position)
            if sequence > self.buffer.last:
                return
            self.cursor = Cursor(sequence, self.buffer.stream)
            if sequence not in self.stored:
                # Expired: whether it is the event that the listener has received cannot be determined.
                unknown = {number for at, number in self.numbers.items() if at <= sequence}
                self.expected = [number for number in self.expected if number not in unknown]
                self.had = max(self.had, *unknown, 0)
        events = self.cursor.look(self.buffer)
        if isinstance(events, Gap):
            raise AssertionError("the stream was never recreated")
        if events is None:
            self._read_back(self.cursor)
        else:
            self._receive([int(event.frame) for event in events])

    def _find(self, sequence: int) -> int:
        """See `StreamHistory.find`."""
        if self.stored.get(sequence, self.had) == self.had and sequence <= self.last:
            return sequence
        newer = [place for place, number in self.stored.items() if number > self.had]
        return min(newer, default=self.last + 1) - 1

    def _events(self, batch: list[int]) -> list[BufferedEvent]:
        frames = [b"%d" % self.stored[sequence] for sequence in batch]
        return [
            BufferedEvent(sequence, "query.completed", AGENT, OWNER, frame)
            for sequence, frame in zip(batch, frames, strict=True)
        ]

    def _read_back(self, cursor: Cursor) -> None:
        older = [sequence for sequence in self.stored if sequence > cursor.sequence][
            : self.random.randint(1, 5)
        ]
        end = self.buffer.last
        numbers = [self.stored[sequence] for sequence in older if sequence <= end]
        if older:
            gap = cursor.read(older[0], max(older[0] - 1, min(older[-1], end)))
        else:
            before_first = min(self.before_first, self.buffer.after)
            gap = cursor.read(before_first + 1, before_first)
        if gap is not None:
            assert gap.first <= (gap.last or 0) == gap.resume_after
            kept = [
                number for sequence, number in self.numbers.items() if sequence > gap.resume_after
            ]
            first_kept = min(kept, default=self.published + 1)
            self.had = first_kept - 1
            self.expected = [number for number in self.expected if number >= first_kept]
        self._receive(numbers)

    def _receive(self, events: list[int]) -> None:
        assert events == self.expected[: len(events)], (events, self.expected[:5])
        del self.expected[: len(events)]
        self.received += events
        self.had = max([self.had, *events])


def simulate(random: Random) -> None:
    buffer = ReplayBuffer(random.randint(1, 6), 10_000)
    buffer.begin(0, new_stream_from=0)
    simulation = Simulation(random, buffer)
    actions = (
        simulation.publish,
        simulation.follow,
        simulation.listen,
        simulation.restart,
        simulation.expire,
        simulation.lose,
    )
    for _ in range(STEPS):
        random.choices(actions, weights=(5, 5, 8, 1, 0.5, 0.5))[0]()
    simulation.publish()
    # Without new events the listener catches up with the stream.
    for _ in range(simulation.last + 10):
        simulation.follow(limit=3)
        simulation.listen()
    assert simulation.expected == []
    assert simulation.received == sorted(set(simulation.received))


def test_random_simulations_deliver_every_event_once_and_in_order(seed: int) -> None:
    for simulation_seed in range(seed, seed + SIMULATIONS):
        with repeatable(simulation_seed):
            simulate(Random(simulation_seed))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_buffer_with_many_evicted_events_is_searched_correctly(size: int) -> None:
    buffer = ReplayBuffer(size, 10_000)
    buffer.begin(0, new_stream_from=0)
    for sequence in range(1, 50):
        buffer.extend([buffered_event(sequence)], sequence, sequence)
        assert sequences_of(buffer.behind(buffer.after)) == [*range(buffer.after + 1, sequence + 1)]


def test_evicted_events_are_freed() -> None:
    buffer, agent_id = ReplayBuffer(160, 10_000), uuid4()
    buffer.begin(0, new_stream_from=0)
    for sequence in range(1, 1001):
        event = BufferedEvent(sequence, "query.completed", agent_id, OWNER, b"")
        buffer.extend([event], sequence, sequence)
    in_memory = [
        candidate
        for candidate in gc.get_objects()
        if isinstance(candidate, BufferedEvent) and candidate.agent_id == agent_id
    ]
    assert len(sequences_of(buffer.behind(buffer.after))) == 160
    assert 160 <= len(in_memory) <= 160 * (1 + 1 / (module.EVICTED_SHARE - 1))
