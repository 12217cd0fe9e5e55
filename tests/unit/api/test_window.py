"""The window of the newest events and a listener's place: nothing lost, nothing doubled, at every seam."""

import gc
from dataclasses import dataclass, field
from random import Random
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.api.streaming import event_window as module
from services.api.streaming.event_window import BufferedEvent, Cursor, Gap, ReplayBuffer, chunk
from tests.support.seeds import repeatable

OWNER, AGENT = UUID(int=1), UUID(int=2)
WORLDS = 1_000
MOMENTS = 120


def heard(sequence: int, size: int = 10) -> BufferedEvent:
    return BufferedEvent(sequence, "query.completed", AGENT, OWNER, b"x" * size)


def sequences(found: object) -> list[int]:
    assert isinstance(found, list), found
    return [each.sequence for each in found]


def window_of(*given: int, most_events: int = 100, most_bytes: int = 10_000) -> ReplayBuffer:
    window = ReplayBuffer(most_events, most_bytes)
    window.begin(0, new_stream_from=0)
    for sequence in given:
        window.extend([heard(sequence)], sequence, sequence)
    return window


def test_what_stands_behind_a_place() -> None:
    window = window_of(1, 2)
    window.extend([heard(5)], 3, 5)
    assert sequences(window.behind(0)) == [1, 2, 5]
    assert sequences(window.behind(2)) == [5]
    assert sequences(window.behind(3)) == [5]
    assert sequences(window.behind(5)) == []
    assert sequences(window.behind(9)) == []


def test_the_oldest_are_given_up_by_number_and_by_size() -> None:
    window = window_of(*range(1, 11), most_events=3)
    assert (window.after, window.last) == (7, 10)
    assert sequences(window.behind(7)) == [8, 9, 10]
    assert window.behind(6) is None
    small = window_of(1, 2, 3, most_bytes=25)
    assert sequences(small.behind(1)) == [2, 3]
    assert small.behind(0) is None
    small.extend([heard(4, size=1000)], 4, 4)
    assert (small.after, sequences(small.behind(4))) == (4, [])


def test_what_is_nobodys_moves_the_end_only() -> None:
    window = window_of(1)
    window.extend([], 2, 7)
    assert (window.after, window.last, sequences(window.behind(0))) == (0, 7, [1])


def test_a_chunk_is_bounded_and_never_empty() -> None:
    large = [heard(1, module.CHUNK_BYTES * 2), heard(2), heard(3)]
    assert sequences(chunk(large)) == [1]
    assert sequences(chunk(large[1:])) == [2, 3]
    assert chunk([]) == []


def test_for_a_place_before_it_the_window_has_no_answer() -> None:
    window = window_of(1, 2, 3, most_events=2)
    cursor = Cursor(0, window.stream)
    assert (cursor.look(window), cursor.is_before(window)) == (None, True)
    assert cursor.read(1, 1) is None
    assert sequences(cursor.look(window)) == [2, 3]
    assert not cursor.is_before(window)


def test_where_events_are_missing_the_window_begins_again_and_who_waits_is_told() -> None:
    window = window_of(1, 2)
    cursor = Cursor(2, window.stream)
    window.extend([heard(11)], 11, 11)
    assert cursor.look(window) is None
    assert cursor.read(11, 12) == Gap("expired", 3, 10, 10)
    assert cursor.sequence == 12


def test_a_stream_made_anew_is_a_gap_once_and_then_begins_at_its_first() -> None:
    window = window_of(1, 2, 3)
    cursor = Cursor(3, window.stream)
    window.begin(0, new_stream_from=0)
    window.extend([heard(1)], 1, 1)
    assert cursor.look(window) == Gap("stream_made_anew", 4, None, 0)
    assert sequences(cursor.look(window)) == [1]


@dataclass
class World:
    """A stream that forgets, a hub that follows it, and a listener: as much of each as decides who sees what."""

    random: Random
    window: ReplayBuffer
    kept: list[int] = field(default_factory=list)
    last: int = 0
    cursor: Cursor | None = None
    due: list[int] = field(default_factory=list)
    """What the listener is still to be sent."""
    sent: list[int] = field(default_factory=list)

    def publish(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.last += 1
            self.kept.append(self.last)
            self.due.append(self.last)

    def forget(self) -> None:
        del self.kept[: self.random.randint(0, len(self.kept))]

    def follow(self, at_most: int | None = None) -> None:
        """The hub reads on."""
        new = [each for each in self.kept if each > self.window.last]
        batch = new[: self.random.randint(0, 5) if at_most is None else at_most]
        if batch:
            self.window.extend([heard(each) for each in batch], batch[0], batch[-1])

    def restart(self) -> None:
        """The api is another process, whose window begins near the stream's end; the listener comes back."""
        self.window = ReplayBuffer(self.window.most_events, 10_000)
        before_first = self.kept[0] - 1 if self.kept else self.last
        after = max(before_first, self.last - self.window.most_events)
        self.window.begin(after, new_stream_from=before_first)
        if self.cursor is not None:
            self.cursor = Cursor(self.cursor.sequence, self.window.stream)

    def listen(self) -> None:
        if self.cursor is None:
            self.cursor = Cursor(0, self.window.stream)
        found = self.cursor.look(self.window)
        if isinstance(found, Gap):
            raise AssertionError("the stream was never made anew")
        if found is None:
            self._read_back(self.cursor)
        else:
            self._sent(sequences(found))

    def _read_back(self, cursor: Cursor) -> None:
        past = [each for each in self.kept if each > cursor.sequence][: self.random.randint(1, 5)]
        if past:
            gap = cursor.read(past[0], past[-1])
        else:
            before_first = min(self.last, self.window.after)
            gap = cursor.read(before_first + 1, before_first)
        if gap is not None:
            assert gap.first <= (gap.last or 0) == gap.resume_after
            self.due = [each for each in self.due if not gap.first <= each <= gap.resume_after]
        self._sent(past)

    def _sent(self, these: list[int]) -> None:
        assert these == self.due[: len(these)], (these, self.due[:5])
        del self.due[: len(these)]
        self.sent += these


def sees_everything_once(random: Random) -> None:
    window = ReplayBuffer(random.randint(1, 6), 10_000)
    window.begin(0, new_stream_from=0)
    world = World(random, window)
    steps = (world.publish, world.follow, world.listen, world.restart, world.forget)
    for _ in range(MOMENTS):
        random.choices(steps, weights=(5, 5, 8, 1, 0.5))[0]()
    world.publish()
    for _ in range(world.last + 10):  # in peace: the listener ends where the stream does
        world.follow(at_most=3)
        world.listen()
    assert world.due == []
    assert world.sent == sorted(set(world.sent))


def test_random_worlds_show_every_event_once_and_in_order(seed: int) -> None:
    for each in range(seed, seed + WORLDS):
        with repeatable(each):
            sees_everything_once(Random(each))


@settings(max_examples=200, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_smallest_world_that_shows_less_or_more(random: Random) -> None:
    sees_everything_once(random)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_window_that_has_given_up_much_is_still_searched_right(size: int) -> None:
    window = ReplayBuffer(size, 10_000)
    window.begin(0, new_stream_from=0)
    for sequence in range(1, 50):
        window.extend([heard(sequence)], sequence, sequence)
        assert sequences(window.behind(window.after)) == [*range(window.after + 1, sequence + 1)]


def test_what_is_given_up_takes_no_memory() -> None:
    window, agent_id = ReplayBuffer(160, 10_000), uuid4()
    window.begin(0, new_stream_from=0)
    for sequence in range(1, 1001):
        told = BufferedEvent(sequence, "query.completed", agent_id, OWNER, b"")
        window.extend([told], sequence, sequence)
    held = [
        each
        for each in gc.get_objects()
        if isinstance(each, BufferedEvent) and each.agent_id == agent_id
    ]
    assert len(sequences(window.behind(window.after))) == 160
    assert 160 <= len(held) <= 160 * (1 + 1 / (module.EVICTED_SHARE - 1))
