"""Cursors, ids, JSON parameters and logins as the database receives them."""

import base64
import json
from datetime import UTC, datetime
from itertools import pairwise
from random import Random
from typing import Any
from uuid import RFC_4122, UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import make_url

from shared.database import ids, pagination
from shared.database.engine import with_login
from shared.database.pagination import InvalidCursorError
from shared.database.statements import json_text
from tests.support.seeds import first_seed, repeatable

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


AGENT = UUID("6f1e2d3c-4b5a-4978-8695-a4b3c2d1e0f0")


def test_ids_of_iterations_never_change() -> None:
    """Two versions of Vigil, or two schedulers, must give an iteration the same id."""
    assert str(ids.iteration_id(AGENT, 1)) == "99b27418-d02b-8000-8000-06fdf993c967"
    assert str(ids.iteration_id(AGENT, 1_234_567)) == "99b27418-d02b-8001-8b5a-1efdf993c967"


def test_ids_of_an_agents_iterations_are_in_the_order_of_their_numbers() -> None:
    seed = first_seed()
    with repeatable(seed):
        random = Random(seed)
        large = random.sample(range(100, 1 << 31), 2_000)
        edges = [(1 << 20) - 1, 1 << 20, (1 << 31) - 1]
        numbers = sorted({*range(1, 100), *large, *edges})
        made = [ids.iteration_id(AGENT, number) for number in numbers]
        assert all(earlier < later for earlier, later in pairwise(made))
        assert {(each.version, each.variant) for each in made} == {(8, RFC_4122)}


def test_iterations_of_different_agents_have_different_ids() -> None:
    agents = [uuid4() for _ in range(500)]
    made = {ids.iteration_id(agent, number) for agent in agents for number in range(1, 51)}
    assert len(made) == 500 * 50


_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters())
)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner)
)


@settings(max_examples=50)
@given(_VALUES)
def test_the_text_has_the_same_value(value: Any) -> None:
    assert json.loads(json_text(value)) == json.loads(json.dumps(value))


def test_other_types_are_in_the_form_of_postgresql() -> None:
    identifier = UUID(int=1)
    values = [b"\x00\xff", datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), identifier]
    expected = ["\\x00ff", "2026-01-02T03:04:05.000006+00:00", str(identifier)]
    assert json.loads(json_text(values)) == expected
    # A large integer, which the fast encoder refuses.
    assert json.loads(json_text([2**70, *values])) == [2**70, *expected]


URL = "postgresql://postgres:5432/vigil?application_name=a%20name"


@pytest.mark.parametrize("password", ["with a space", "a+b", "a%20b", "?&#/@:", "ä€", " "])
def test_any_password_reaches_both_clients(password: str) -> None:
    url = with_login(URL, role="vigil_api", password=password)
    seen = conninfo_to_dict(url)
    assert (seen["user"], seen["password"]) == ("vigil_api", password)
    assert seen["application_name"] == "a name"
    assert make_url(url).password == password
