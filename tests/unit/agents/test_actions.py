"""Words for what advice tells the owner to do: which are valid, and how forms and the Adviser's tool have them."""

from typing import Any

import pytest
from pydantic import ValidationError

from services.api.web.forms import NewAgentForm, validated
from shared.agents.fields import MAX_ACTIONS, validate_actions
from shared.graph.tools.conclusion_tools import advice_arguments
from shared.tools.schemas import portable_schema

MISSION = "Watch the tools that we use"


@pytest.mark.parametrize(
    ("actions", "valid"),
    [
        ({"BUY": "Begin."}, {"BUY": "Begin."}),
        ({" upgrade  now ": " Within\na week. "}, {"upgrade now": "Within a week."}),
        ({"warten": "Nichts ändern.", "kündigen": "Beenden."},) * 2,
        ({"2x": "Double it.", "C++": "Use it."},) * 2,
    ],
)
def test_words_are_valid_with_what_they_mean(
    actions: dict[str, str], valid: dict[str, str]
) -> None:
    assert validate_actions(actions) == valid


@pytest.mark.parametrize(
    ("actions", "reason"),
    [
        ({}, "1 to 8 actions; these are 0"),
        ({f"a{number}": "b" for number in range(MAX_ACTIONS + 1)}, "these are 9"),
        ({"BUY": "Begin.", "buy": "Begin."}, "another word"),
        ({"a b": "Begin.", "a  b": "Begin."}, "another word"),
        ({"": "Begin."}, "is no action"),
        ({"!": "Begin."}, "is no action"),
        ({"BUY: now": "Begin."}, "is no action"),
        ({'"BUY"': "Begin."}, "is no action"),
        ({"a=b": "Begin."}, "is no action"),
        ({"a" * 31: "Begin."}, "at most 30 characters"),
        ({"BUY": " "}, "say what 'BUY' means"),
        ({"BUY": "b" * 121}, "in 1 to 120 characters; this has 121"),
        ({"BUY": "\0"}, "NUL"),
    ],
)
def test_other_words_are_refused(actions: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        validate_actions(actions)


@pytest.mark.parametrize(
    ("text", "actions"),
    [
        ("", None),
        ("WAIT: Change nothing.", {"WAIT": "Change nothing."}),
        ("WAIT: Change nothing.\r\n\r\nupgrade now: By 10:30.\r\n", {
            "WAIT": "Change nothing.", "upgrade now": "By 10:30.",
        }),
    ],
)  # fmt: skip
def test_a_form_has_one_action_a_line(text: str, actions: dict[str, str] | None) -> None:
    form = validated(NewAgentForm, {"mission": MISSION, "actions": text})
    assert form.model is not None
    assert form.model.actions == actions


def test_a_form_says_how_to_write_an_action() -> None:
    form = validated(NewAgentForm, {"mission": MISSION, "actions": "WAIT"})
    assert form.errors == {
        "actions": "Write each action with what it means, as in BUY: begin or do more, not “WAIT”."
    }


def test_the_tool_lists_the_words_of_the_agent() -> None:
    arguments = advice_arguments((("WAIT", "Change nothing."), ("upgrade now", "Within a week.")))
    schema = portable_schema(arguments.model_json_schema(by_alias=True))
    action: dict[str, Any] = schema["properties"]["action"]
    assert action["enum"] == ["WAIT", "upgrade now"]
    assert "upgrade now: Within a week." in action["description"]
    assert list(schema["properties"])[:2] == ["name", "action"]
    with pytest.raises(ValidationError, match="WAIT"):
        arguments.model_validate({"action": "BUY"})
    same = advice_arguments((("WAIT", "Change nothing."), ("upgrade now", "Within a week.")))
    assert same is arguments
