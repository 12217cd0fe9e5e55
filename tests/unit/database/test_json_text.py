"""JSON parameters are what the standard library would write."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.database.statements import json_text

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
