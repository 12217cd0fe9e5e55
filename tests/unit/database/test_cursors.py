"""Cursors come back as they were written, and whatever else is handed in is refused in words."""

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
PLACE = (MOMENT, UUID(int=7), -5, "Zürich / [x]")


def packed(*values: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).rstrip(b"=").decode()


def test_a_place_comes_back_to_the_microsecond() -> None:
    cursor = pagination.encode_cursor("moods", PLACE)
    assert pagination.decode_cursor("moods", KINDS, cursor) == PLACE
    assert cursor.isascii()
    assert not set("+/=&?#% ") & set(cursor)


@given(
    st.tuples(
        # A local time that the clocks show twice is no one moment.
        st.datetimes(timezones=st.just(UTC)),
        st.uuids(),
        st.integers(-(2**63), 2**63 - 1),
        st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=80),
    )
)
def test_any_place_comes_back(place: tuple[datetime, UUID, int, str]) -> None:
    assert (
        pagination.decode_cursor("moods", KINDS, pagination.encode_cursor("moods", place)) == place
    )


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "%",
        "é",
        "a" * 5_000,
        packed(),
        packed(1),
        packed(1, "moods"),
        packed(2, "moods", MOMENT.isoformat()),
        packed(1, "others", MOMENT.isoformat()),
        packed(1, "moods", "yesterday"),
        packed(1, "moods", "2026-01-31T12:00:00"),
        packed(1, "moods", 7),
        packed(1, "moods", None),
        packed(1, "moods", ["2026"]),
        base64.urlsafe_b64encode(b"[" * 700).decode(),
        base64.urlsafe_b64encode(b"\xff\xfe").decode(),
        base64.urlsafe_b64encode(b'{"a": 1}').decode(),
    ],
)
def test_what_is_no_cursor_of_this_list_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidCursorError, match="not a cursor of this list"):
        pagination.decode_cursor("moods", (datetime,), cursor)


@pytest.mark.parametrize(
    ("kind", "value"),
    [(int, True), (int, 2**63), (int, 1.5), (str, "a\x00"), (str, "\ud800"), (UUID, "7")],
)
def test_what_postgres_could_not_compare_is_refused(kind: type, value: Any) -> None:
    with pytest.raises(InvalidCursorError):
        pagination.decode_cursor("moods", (kind,), packed(1, "moods", value))


@given(st.text())
def test_nothing_breaks_it(cursor: str) -> None:
    with pytest.raises(InvalidCursorError):
        pagination.decode_cursor("moods", KINDS, cursor)
