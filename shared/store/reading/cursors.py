"""Where a page of a list ended, as a word that people hand back unread to have the page after it."""

import base64
import binascii
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from shared.errors import VigilError

VERSION: Final = 1
LONGEST_CHARACTERS: Final = 2_000
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1

Place = tuple[UUID | datetime | int | str, ...]
"""The values of a list's order at one of its rows."""


class BadCursorError(VigilError):
    """What was given as a cursor is none, or is another list's."""


def written(name: str, place: Place) -> str:
    """The cursor of that place in the list `name`. It holds nothing that the page itself does not."""
    plain = [value if isinstance(value, int) else _text(value) for value in place]
    whole = json.dumps([VERSION, name, *plain], separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(whole.encode()).rstrip(b"=").decode()


def read(name: str, kinds: Sequence[type], cursor: str) -> Place:
    """Raises BadCursorError where it was not `written` for the list `name`, by this version."""
    try:
        version, of, *plain = _unpacked(cursor)
        if (version, of, len(plain)) != (VERSION, name, len(kinds)):
            raise ValueError
        return tuple(_value(kind, each) for kind, each in zip(kinds, plain, strict=True))
    except (ValueError, TypeError) as error:
        raise BadCursorError(
            f"{cursor[:40]!r} is no cursor of this list: take `next` of one of its pages,"
            " or leave it out to begin with the first page"
        ) from error


def _text(value: UUID | datetime | str) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _unpacked(cursor: str) -> list[Any]:
    if len(cursor) > LONGEST_CHARACTERS:
        raise ValueError
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        found = json.loads(raw)
    except (binascii.Error, RecursionError) as error:
        raise ValueError from error
    if not isinstance(found, list):
        raise ValueError
    return found


def _value(kind: type, plain: Any) -> UUID | datetime | int | str:
    """Only what Postgres can compare with a column of that kind."""
    if kind is int:
        if type(plain) is not int or not _SMALLEST <= plain <= _LARGEST:
            raise ValueError
        return plain
    if not isinstance(plain, str):
        raise ValueError
    if kind is UUID:
        return UUID(plain)
    if kind is datetime:
        moment = datetime.fromisoformat(plain)
        if moment.tzinfo is None:
            raise ValueError
        return moment
    if "\x00" in plain:
        raise ValueError
    plain.encode()
    return plain
