"""The newest events, in memory, by their place in the stream. Pure."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

CHUNK_EVENTS: Final = 500


CHUNK_BYTES: Final = 64 * 1024
"""What a listener is sent at once, and so what one that takes nothing can hold."""


GIVEN_UP_PART: Final = 16
"""Of the events that are held, one in so many at most has been given up."""


@dataclass(frozen=True, slots=True)
class Heard:
    """An event with whom it belongs to, and as it is sent."""

    sequence: int
    subject: str
    agent_id: UUID
    owner_id: UUID
    frame: bytes


class Window:
    """Every event behind `after` up to `last` that is anybody's; the oldest are given up for new ones."""

    def __init__(self, most_events: int, most_bytes: int) -> None:
        self.most_events = most_events
        self.after = 0
        self.last = 0
        self.origin = 0
        """What stood before the stream's first event when it was found."""
        self.stream = 0
        """A number for each stream that was found: one that is made anew begins its sequences again. 0: none yet."""
        self._most_bytes = most_bytes
        self._bytes = 0
        self._heard: list[Heard] = []
        self._given_up = 0

    def begin(self, after: int, *, new_stream_from: int | None = None) -> None:
        """Empty, from `after` on; in another stream than before where what stood before its first event is given."""
        self.after = self.last = after
        self._heard, self._given_up, self._bytes = [], 0, 0
        if new_stream_from is not None:
            self.origin = new_stream_from
            self.stream += 1

    def extend(self, heard: Sequence[Heard], first: int, last: int) -> None:
        """With what of the events from `first` to `last` is anybody's.

        Where events are missing before `first`, the window begins again: who waits for them has to be told.
        """
        if first > self.last + 1:
            self.begin(first - 1)
        self._heard += heard
        self._bytes += sum(len(each.frame) for each in heard)
        self.last = last
        while self._is_too_large():
            oldest = self._heard[self._given_up]
            self.after = oldest.sequence
            self._bytes -= len(oldest.frame)
            self._given_up += 1
        # Not one by one, which would move all the others each time; nor late: until then they take their memory.
        if self._given_up > len(self._heard) // GIVEN_UP_PART:
            del self._heard[: self._given_up]
            self._given_up = 0

    def behind(self, sequence: int) -> Sequence[Heard] | None:
        """The oldest events behind `sequence`, a chunk at most; None where some of them may have been given up."""
        if sequence < self.after:
            return None
        start = bisect_right(
            self._heard, sequence, lo=self._given_up, key=lambda heard: heard.sequence
        )
        return chunk(self._heard[start : start + CHUNK_EVENTS])

    def _is_too_large(self) -> bool:
        kept = len(self._heard) - self._given_up
        return kept > self.most_events or (kept > 0 and self._bytes > self._most_bytes)


def chunk(heard: Sequence[Heard]) -> Sequence[Heard]:
    """As many of the first as are sent at once: one at least."""
    size = 0
    for count, each in enumerate(heard):
        size += len(each.frame)
        if count and size > CHUNK_BYTES:
            return heard[:count]
    return heard


@dataclass(frozen=True)
class Gap:
    """Events that a listener cannot have any more. `last` is None where the stream was made anew: it had no end."""

    why: Literal["expired", "stream_made_anew"]
    first: int
    last: int | None
    resume_after: int
    """Where the listener stands behind the gap."""


@dataclass
class Cursor:
    """A listener's place: all up to `sequence` has been sent to it, or was not for it."""

    sequence: int
    stream: int

    def is_before(self, window: Window) -> bool:
        """Whether what comes next may not be in the window any more."""
        return self.sequence < window.after

    def look(self, window: Window) -> Sequence[Heard] | Gap | None:
        """What comes next, which counts as sent; None where the window cannot tell it.

        No events where there is nothing new.
        """
        if self.stream != window.stream:
            gap = Gap("stream_made_anew", self.sequence + 1, None, window.origin)
            self.stream, self.sequence = window.stream, window.origin
            return gap
        found = window.behind(self.sequence)
        if found:
            self.sequence = found[-1].sequence
        return found

    def read(self, first: int, last: int) -> Gap | None:
        """Events from `first` to `last` were read from the stream, where nothing stands between them and this place."""
        gap = None
        if first > self.sequence + 1:
            gap = Gap("expired", self.sequence + 1, first - 1, first - 1)
        self.sequence = max(self.sequence, last)
        return gap
