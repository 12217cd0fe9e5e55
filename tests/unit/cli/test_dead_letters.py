"""Dead letters in a terminal: every payload is readable, and its control characters are escaped."""

from typing import Any
from uuid import UUID

import pytest

from cli.render.operations import readable, show_dead_letter, show_dead_letters
from shared.schemas.operations import DeadLetterDetails
from tests.support.cli.console import printed
from tests.support.responses import DEAD_STEP, START, dead_letter_fields

ID = UUID("a1b2c3d4-0000-4000-8000-000000000001")


def dead_letter(payload: bytes = b"{}", **values: Any) -> DeadLetterDetails:
    try:
        text: str | None = payload.decode()
    except UnicodeDecodeError:
        text = None
    defaults: dict[str, Any] = {
        "id": ID,
        "code": "llm_key",
        "error": "the key is wrong [/]",
        "attempts": 6,
        "step": DEAD_STEP,
    }
    return DeadLetterDetails(
        **dead_letter_fields(**(defaults | values)), payload=payload, text=text
    )


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b'{"a": {"b": [1]}}', '{\n  "a": {\n    "b": [\n      1\n    ]\n  }\n}'),
        (b"not JSON", "not JSON"),
        (b"", "nothing"),
        (b"a\x1b[31mred\x07\r\nb", "a\\x1b[31mred\\x07\\r\nb"),
        ('{"a": "\u202egnirts"}'.encode(), '{\n  "a": "\\u202egnirts"\n}'),
        (b"\x00\xffA", "00 ff 41"),
    ],
)
def test_a_payload_is_shown_as_readable_text(payload: bytes, expected: str) -> None:
    assert readable(dead_letter(payload)) == expected


@pytest.mark.parametrize("payload", [b"\xff" * 100_000, b"x" * 100_000, b"[" * 100_000])
def test_a_long_payload_is_cut_and_marked(payload: bytes) -> None:
    text = readable(dead_letter(payload))
    assert len(text) < 5000
    assert text.endswith("use --json to see the whole text")


def test_a_dead_letter_is_shown_with_its_details_and_commands() -> None:
    output = printed(show_dead_letter, dead_letter(b'{"objective": "lithium"}'))
    for words in (
        str(ID)[:8],
        "query.requested",
        "llm_key the key is wrong [/]",
        "researcher, after 6 attempts",
        "query 2 of Tin [bold] #7",
        "vigil dead-letters retry a1b2c3d4",
        "vigil dead-letters discard a1b2c3d4",
        '"objective": "lithium"',
    ):
        assert words in output


def test_a_refused_and_a_pending_retry_are_explained() -> None:
    refusal_output = printed(show_dead_letter, dead_letter(refusal="iteration 7 still runs"))
    assert "iteration 7 still runs" in refusal_output
    assert "dead-letters retry" not in refusal_output
    pending_output = printed(show_dead_letter, dead_letter(retry_requested_at=START))
    assert "is waiting for the scheduler and NATS" in pending_output


def test_the_list_has_one_line_per_dead_letter() -> None:
    pending = dead_letter(retry_requested_at=START, step=None, error="two\nlines")
    output = printed(show_dead_letters, [dead_letter(), pending], limit=2)
    head, first, second, more = output.splitlines()
    assert head.split()[:3] == ["Id", "When", "Service"]
    assert "a1b2c3d4" in first
    assert "query 2 of Tin [bold] #7" in first
    assert "retry requested" in second
    assert "two lines" in second
    assert "newest 2" in more


def test_an_empty_list_is_reported() -> None:
    assert "no dead letters" in printed(show_dead_letters, [], limit=50)


def test_a_dead_letter_says_in_words_what_failed_and_what_to_do() -> None:
    letter = dead_letter(
        title="A query failed", cause="No credit is left.", advice="Check its plan."
    )
    output = printed(show_dead_letter, letter)
    assert "A query failed. No credit is left." in output
    assert "Check its plan." in output
    assert "Advice" not in printed(show_dead_letter, dead_letter())
