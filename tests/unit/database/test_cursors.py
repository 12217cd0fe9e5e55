"""Cursors survive the round trip; any other text is refused with a message."""

import base64
import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.database import pagination
from shared.database.pagination import InvalidCursorError

KINDS = (datetime, UUID, int, str)
MOMENT = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
POSITION = (MOMENT, UUID(int=7), -5, "Zürich / [x]")


def encode_values(*values: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).rstrip(b"=").decode()


def test_a_cursor_round_trips_to_the_microsecond() -> None:
    cursor = pagination.encode_cursor("moods", POSITION)
    assert pagination.decode_cursor("moods", KINDS, cursor) == POSITION
    assert cursor.isascii()
    assert not set("+/=&?#% ") & set(cursor)


@given(
    st.tuples(
        # An ambiguous local time is not a single moment.
        st.datetimes(timezones=st.just(UTC)),
        st.uuids(),
        st.integers(-(2**63), 2**63 - 1),
        st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=80),
    )
)
def test_any_cursor_round_trips(position: tuple[datetime, UUID, int, str]) -> None:
    assert (
        pagination.decode_cursor("moods", KINDS, pagination.encode_cursor("moods", position))
        == position
    )


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "%",
        "é",
        "a" * 5_000,
        encode_values(),
        encode_values(1),
        encode_values(1, "moods"),
        encode_values(2, "moods", MOMENT.isoformat()),
        encode_values(1, "others", MOMENT.isoformat()),
        encode_values(1, "moods", "yesterday"),
        encode_values(1, "moods", "2026-01-31T12:00:00"),
        encode_values(1, "moods", 7),
        encode_values(1, "moods", None),
        encode_values(1, "moods", ["2026"]),
        base64.urlsafe_b64encode(b"[" * 700).decode(),
        base64.urlsafe_b64encode(b"\xff\xfe").decode(),
        base64.urlsafe_b64encode(b'{"a": 1}').decode(),
    ],
)
def test_an_invalid_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidCursorError, match="not a cursor of this list"):
        pagination.decode_cursor("moods", (datetime,), cursor)


@pytest.mark.parametrize(
    ("kind", "value"),
    [(int, True), (int, 2**63), (int, 1.5), (str, "a\x00"), (str, "\ud800"), (UUID, "7")],
)
def test_values_that_postgres_cannot_compare_are_refused(kind: type, value: Any) -> None:
    with pytest.raises(InvalidCursorError):
        pagination.decode_cursor("moods", (kind,), encode_values(1, "moods", value))


@given(st.text())
def test_any_other_text_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidCursorError):
        pagination.decode_cursor("moods", KINDS, cursor)
