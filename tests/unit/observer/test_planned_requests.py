"""The requests that a planned query is to answer, as models name them."""

from uuid import UUID

import pytest

from services.observer.planning import MIN_ID_CHARS, resolve_requests
from shared.workflow.investigations import request_id

AGENT = UUID(int=7)
OBJECTIVE = "Bunker hedges of Castellan for 2027"
OTHER = UUID("f397790e-b310-5d1f-b226-c882915047ae")
TWINS = [UUID("abcdef00-b310-5d1f-b226-c882915047ae"), UUID("abcdef01-b310-5d1f-b226-c882915047ae")]
OWN = request_id(AGENT, OBJECTIVE)
OPEN = dict.fromkeys([OWN, OTHER, *TWINS])


@pytest.mark.parametrize(
    ("reference", "resolved"),
    [
        (str(OTHER), OTHER),
        (f"[request:{OTHER}]", OTHER),
        (f"request:{OTHER}", OTHER),
        (OTHER.hex.upper(), OTHER),
        ("f397790e", OTHER),
        ("[request: f397790e]", OTHER),
        ("f397790e-b310", OTHER),
        ("f397790e-b311", None),
        (OTHER.hex[: MIN_ID_CHARS - 1], None),
        ("abcdef0", None),
        ("abcdef00", TWINS[0]),
        (OBJECTIVE, OWN),
        (" find out the bunker hedges of Castellan  for 2027.", OWN),
        ("Bunker hedges of Castellan for 2026", None),
        ("", None),
        ("none", None),
    ],
)
def test_a_request_is_named_by_its_id_the_beginning_of_it_or_its_words(
    reference: str, resolved: UUID | None
) -> None:
    expected = ([], [reference]) if resolved is None else ([resolved], [])
    assert resolve_requests(AGENT, [reference], OPEN) == expected


def test_a_request_that_is_named_twice_is_answered_once() -> None:
    assert resolve_requests(AGENT, ["f397790e", str(OTHER), OBJECTIVE], OPEN) == ([OTHER, OWN], [])
