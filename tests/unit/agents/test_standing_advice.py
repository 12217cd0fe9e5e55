"""The Adviser is shown what it advises now, and what to declare."""

from datetime import UTC, datetime

from services.adviser.prompts import user_message
from shared.graph.conclusions.positions import rule

NOW = datetime(2026, 11, 30, tzinfo=UTC)
LINE = '- [n9] BUY "Ghana is cheap" on "Ghana" [n1]; until 2027-03-31, confidence 0.6, since 2026-11-29'


def test_standing_advice_is_shown_with_what_to_declare() -> None:
    message = user_message("Watch", "- a", "Nothing", NOW, standing_advice=LINE)
    assert f"<standing_advice>\n{LINE}\n</standing_advice>\n\n{rule(LINE)}" in message
    assert all(word in rule(LINE) for word in ("confirm", "`replaces`", "`change`", "withdraw"))


def test_without_standing_advice_nothing_is_said_of_it() -> None:
    message = user_message("Watch", "- a", "Nothing", NOW)
    assert "standing_advice" not in message
    assert "reviewAdvice" not in message
