"""The replay buffer: the newest events in memory, by their sequence in the stream. Pure."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

CHUNK_EVENTS: Final = 500


CHUNK_BYTES: Final = 64 * 1024
"""The size of one write to a client, and so the most that a client that reads nothing can hold."""


EVICTED_SHARE: Final = 16
"""At most one in this many of the stored events has been evicted but not yet removed."""


@dataclass(frozen=True, slots=True)
class BufferedEvent:
    """An event with its owner and its SSE frame."""

    sequence: int
    subject: str
    agent_id: UUID
    owner_id: UUID
    frame: bytes
    stored_at: datetime | None = None


class ReplayBuffer:
    """All events with an owner after `after` up to `last`. The oldest are evicted for new ones."""

    def __init__(self, max_events: int, max_bytes: int) -> None:
        self.max_events = max_events
        self.after = 0
        self.last = 0
        self.origin = 0
        """The sequence before the stream's first event when it was found."""
        self.stream = 0
        """A number for each stream that was found, since a recreated stream starts its sequences again. 0: none yet.

        A stream that has lost its newest events has a number of its own, too: it uses their sequences again.
        """
        self._kept: dict[int, int] = {}
        """Since the stream was recreated, the last sequence that was kept by `stream` when newest events were lost."""
        self._max_bytes = max_bytes
        self._bytes = 0
        self._events: list[BufferedEvent] = []
        self._evicted = 0

    def begin(
        self, after: int, *, new_stream_from: int | None = None, has_lost_newest: bool = False
    ) -> None:
        """Empties the buffer and starts it after `after`.

        With `new_stream_from`, in another stream than before, or in the same one that `has_lost_newest` events.
        """
        self.after = self.last = after
        self._events, self._evicted, self._bytes = [], 0, 0
        if new_stream_from is not None:
            self.origin = new_stream_from
            self.stream += 1
            if has_lost_newest:
                self._kept[self.stream] = new_stream_from
            else:
                self._kept = {}

    def at(self, sequence: int) -> BufferedEvent | None:
        """Returns the event with this sequence, if the buffer has it."""
        events = self.behind(sequence - 1)
        return events[0] if events and events[0].sequence == sequence else None

    def kept_since(self, stream: int) -> int | None:
        """Returns the last sequence that has not been lost since that stream; None if it is another one than now."""
        numbers = range(stream + 1, self.stream + 1)
        if any(number not in self._kept for number in numbers):
            return None
        return min((self._kept[number] for number in numbers), default=self.last)

    def extend(self, events: Sequence[BufferedEvent], first: int, last: int) -> None:
        """Adds the events from `first` to `last` that have an owner.

        Where events are missing before `first`, the buffer starts again, and clients that wait for
        them get a gap.
        """
        if first > self.last + 1:
            self.begin(first - 1)
        self._events += events
        self._bytes += sum(len(item.frame) for item in events)
        self.last = last
        while self._is_too_large():
            oldest = self._events[self._evicted]
            self.after = oldest.sequence
            self._bytes -= len(oldest.frame)
            self._evicted += 1
        # Removed in batches: removing them singly would move all others each time.
        if self._evicted > len(self._events) // EVICTED_SHARE:
            del self._events[: self._evicted]
            self._evicted = 0

    def behind(self, sequence: int) -> Sequence[BufferedEvent] | None:
        """Returns the oldest events after `sequence`, at most a chunk; None where some of them may
        have been evicted.
        """
        if sequence < self.after:
            return None
        start = bisect_right(
            self._events, sequence, lo=self._evicted, key=lambda event: event.sequence
        )
        return chunk(self._events[start : start + CHUNK_EVENTS])

    def _is_too_large(self) -> bool:
        count = len(self._events) - self._evicted
        return count > self.max_events or (count > 0 and self._bytes > self._max_bytes)


def chunk(events: Sequence[BufferedEvent]) -> Sequence[BufferedEvent]:
    """Returns the first events that fit into one write; at least one."""
    size = 0
    for count, item in enumerate(events):
        size += len(item.frame)
        if count and size > CHUNK_BYTES:
            return events[:count]
    return events


@dataclass(frozen=True)
class Gap:
    """Events that a client cannot get any more.

    `last` is None where the stream was recreated: its end is unknown.
    """

    why: Literal["expired", "stream_made_anew"]
    first: int
    last: int | None
    resume_after: int
    """The client's position after the gap."""


@dataclass
class Cursor:
    """A client's position: everything up to `sequence` has been sent to it, or was not for it."""

    sequence: int
    stream: int

    def is_before(self, window: ReplayBuffer) -> bool:
        """Returns whether the next event may not be in the buffer any more."""
        return self.sequence < window.after

    def look(self, window: ReplayBuffer) -> Sequence[BufferedEvent] | Gap | None:
        """Returns the next events and moves past them; None where the buffer does not have them.

        Returns no events where there are no new ones.
        """
        if self.stream != window.stream and (kept := window.kept_since(self.stream)) is not None:
            # The client has received what was lost after that, or it is published again.
            self.stream, self.sequence = window.stream, min(self.sequence, kept)
        if self.stream != window.stream:
            gap = Gap("stream_made_anew", self.sequence + 1, None, window.origin)
            self.stream, self.sequence = window.stream, window.origin
            return gap
        events = window.behind(self.sequence)
        if events:
            self.sequence = events[-1].sequence
        return events

    def read(self, first: int, last: int) -> Gap | None:
        """Moves past events from `first` to `last` that were read from the stream, unless the
        position lies elsewhere.
        """
        gap = None
        if first > self.sequence + 1:
            gap = Gap("expired", self.sequence + 1, first - 1, first - 1)
        self.sequence = max(self.sequence, last)
        return gap
