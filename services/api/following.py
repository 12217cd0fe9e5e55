"""Following an answer while it is written: from where somebody stands to what comes next, pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from shared.errors import VigilError
from shared.store.reading.conversation_shapes import (
    ENDED,
    LookView,
    MessageStatus,
    Restart,
    TextPiece,
)

_PLACE: Final = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})")


class BadPlaceError(VigilError):
    """What was given as the last event's id is none of this stream."""


@dataclass(frozen=True)
class Place:
    """How much of an answer somebody has: `offset` characters of `draft`, and what was looked at so far.

    It is the id of each event: whoever comes back with it gets exactly what follows.
    """

    draft: int = 0
    offset: int = 0
    looked: int = 0

    @classmethod
    def read(cls, event_id: str | None) -> Self:
        """Raises BadPlaceError. Without an id it is the beginning."""
        if event_id is None:
            return cls()
        match = _PLACE.fullmatch(event_id.strip())
        if match is None:
            raise BadPlaceError(
                f"{event_id[:40]!r} is no id of an event of this stream: leave Last-Event-ID out to begin anew"
            )
        return cls(*(int(part) for part in match.groups()))

    def __str__(self) -> str:
        return f"{self.draft}.{self.offset}.{self.looked}"


@dataclass(frozen=True)
class AnswerState:
    """An answer as far as it has come."""

    draft: int
    content: str
    looked: tuple[LookView, ...]
    status: MessageStatus

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED


@dataclass(frozen=True)
class Piece:
    """One event: where who has read it stands, and what it says."""

    place: Place
    what: LookView | Restart | TextPiece


def pieces(place: Place, state: AnswerState) -> Sequence[Piece]:
    """What `state` has beyond `place`. None of it twice, nothing left out, whatever was missed in between."""
    found: list[Piece] = []
    for number, look in enumerate(state.looked[place.looked :], place.looked + 1):
        place = Place(place.draft, place.offset, number)
        found.append(Piece(place, look))
    if state.draft != place.draft:
        had_some = place.offset > 0
        place = Place(state.draft, 0, place.looked)
        if had_some:
            found.append(Piece(place, Restart(draft=state.draft)))
    text = state.content[place.offset :]
    if text:
        said = TextPiece(draft=state.draft, offset=place.offset, text=text)
        found.append(Piece(Place(state.draft, len(state.content), place.looked), said))
    return found


def after(place: Place, found: Sequence[Piece], state: AnswerState) -> Place:
    """Where somebody stands who has read `found`."""
    return found[-1].place if found else Place(state.draft, place.offset, place.looked)
