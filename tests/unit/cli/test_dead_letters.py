"""Dead letters in a terminal: whatever they hold, they can be read, and do nothing to it."""

import io
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from rich.console import Console

from cli.render.console import THEME
from cli.render.operations import readable, show_letter, show_letters
from shared.schemas.operations import DeadLetterDetails, LetterStepView

ID = UUID("a1b2c3d4-0000-4000-8000-000000000001")
KEPT = datetime(2026, 1, 31, 12, tzinfo=UTC)
STEP = LetterStepView(
    id=ID,
    kind="query",
    index=1,
    status="failed",
    iteration_id=ID,
    iteration_number=7,
    iteration_status="completed",
    agent_id=ID,
    agent_name="Lithium [bold]",
)


def letter(payload: bytes = b"{}", **values: Any) -> DeadLetterDetails:
    try:
        text: str | None = payload.decode()
    except UnicodeDecodeError:
        text = None
    known: dict[str, Any] = {
        "id": ID,
        "actor": "researcher",
        "subject": "query.requested",
        "code": "llm_key",
        "error": "the key is wrong [/]",
        "attempts": 6,
        "created_at": KEPT,
        "stored_at": KEPT,
        "retry_requested_at": None,
        "refusal": None,
        "step": STEP,
    }
    return DeadLetterDetails(**(known | values), payload=payload, text=text)


def shown(one: DeadLetterDetails) -> str:
    file = io.StringIO()
    show_letter(Console(file=file, theme=THEME, width=200), one)
    return file.getvalue()


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (b'{"a": {"b": [1]}}', '{\n  "a": {\n    "b": [\n      1\n    ]\n  }\n}'),
        (b"not JSON", "not JSON"),
        (b"", "nothing"),
        (b"a\x1b[31mred\x07\r\nb", "a\\x1b[31mred\\x07\\r\nb"),
        ('{"a": "\u202egnirts"}'.encode(), '{\n  "a": "\\u202egnirts"\n}'),
        (b"\x00\xffA", f"{'00 ff 41':<48} ··A"),
    ],
)
def test_what_a_letter_says_is_readable(payload: bytes, told: str) -> None:
    assert readable(letter(payload)) == told


@pytest.mark.parametrize("payload", [b"\xff" * 100_000, b"x" * 100_000, b"[" * 100_000])
def test_what_is_long_is_cut_and_said_so(payload: bytes) -> None:
    told = readable(letter(payload))
    assert len(told) < 5000
    assert told.endswith("the whole text with --json")


def test_a_letter_is_shown_with_all_that_is_known_and_what_to_do() -> None:
    told = shown(letter(b'{"objective": "lithium"}'))
    for words in (
        str(ID),
        "query.requested",
        "llm_key the key is wrong [/]",
        "researcher, after 6 attempts",
        "query 2 of Lithium [bold] #7",
        "vigil dead-letters retry a1b2c3d4",
        "vigil dead-letters discard a1b2c3d4",
        '"objective": "lithium"',
    ):
        assert words in told


def test_what_cannot_be_retried_says_why_and_what_waits_says_for_whom() -> None:
    refused = shown(letter(refusal="iteration 7 still runs"))
    assert "iteration 7 still runs" in refused
    assert "dead-letters retry" not in refused
    waits = shown(letter(retry_requested_at=KEPT))
    assert "waits for the scheduler and NATS" in waits


def test_the_list_has_a_line_for_each() -> None:
    file = io.StringIO()
    console = Console(file=file, theme=THEME, width=200)
    asked = letter(retry_requested_at=KEPT, step=None, error="two\nlines")
    show_letters(console, [letter(), asked], limit=2)
    head, first, second, more = file.getvalue().splitlines()
    assert head.split()[:3] == ["Id", "When", "Service"]
    assert "a1b2c3d4" in first
    assert "query 2 of Lithium [bold] #7" in first
    assert "retry requested" in second
    assert "two lines" in second
    assert "newest 2" in more


def test_where_there_are_none_it_says_so() -> None:
    file = io.StringIO()
    show_letters(Console(file=file, theme=THEME), [], limit=50)
    assert "no dead letters" in file.getvalue()
