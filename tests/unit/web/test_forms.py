"""Forms: what was typed is kept, and each wrong field has one sentence without words of pydantic."""

from decimal import Decimal
from http import HTTPStatus

import pytest
from pydantic import BaseModel

from services.api.http.problem_details import ConflictError
from services.api.routers.accounts import NewUser
from services.api.web.form_errors import FORM
from services.api.web.forms import (
    FormState,
    NewAgentForm,
    NewTokenForm,
    SettingsForm,
    validated,
)
from shared.enums import Phase

SETTINGS = {
    "version": "1",
    "name": "Zinc desk",
    "interval_seconds": "5 min",
    "entailment_usd_per_day": "0",
    "entailment_share": "0.05",
}
TOKEN = {"name": "Backup", "scopes": ["read"], "expires_in_days": "90"}
USER = {"name": "anna"}


@pytest.mark.parametrize(
    ("model", "fields", "field", "sentence"),
    [
        (SettingsForm, {**SETTINGS, "name": ""}, "name", "Enter the name."),
        (
            SettingsForm,
            {**SETTINGS, "name": "/"},
            "name",
            "A name must contain a letter or digit, and no slash, because it is part of URLs.",
        ),
        (
            SettingsForm,
            {**SETTINGS, "interval_seconds": "soon"},
            "interval_seconds",
            "“soon” is not a duration: write 30 s, 5 min, 2 h or 1 d.",
        ),
        (
            SettingsForm,
            {**SETTINGS, "interval_seconds": "5"},
            "interval_seconds",
            "Enter a duration from 10 s to 366 d, not “5”.",
        ),
        (
            SettingsForm,
            {**SETTINGS, "feedback_rounds": "many"},
            "feedback_rounds",
            "Choose how many feedback rounds.",
        ),
        (
            SettingsForm,
            {**SETTINGS, "feedback_rounds": "3"},
            "feedback_rounds",
            "Choose how many feedback rounds.",
        ),
        (
            SettingsForm,
            {**SETTINGS, "calls_per_day": "-1"},
            "calls_per_day",
            "Enter a whole number of at least 0, not “-1”.",
        ),
        (
            SettingsForm,
            {**SETTINGS, "calls_per_day": "1.5"},
            "calls_per_day",
            "Enter a whole number from 0 to 1,000,000,000, not “1.5”.",
        ),
        (
            SettingsForm,
            {**SETTINGS, "usd_per_day": "five"},
            "usd_per_day",
            "Enter a number from 0 to 100,000, not “five”.",
        ),
        (
            SettingsForm,
            {**SETTINGS, "usd_per_day": "0.123456789"},
            "usd_per_day",
            "Enter a number with at most 8 decimal places, not “0.123456789”.",
        ),
        (
            SettingsForm,
            {**SETTINGS, "entailment_share": "2"},
            "entailment_share",
            "Enter a number of at most 1, not “2”.",
        ),
        (
            SettingsForm,
            {**SETTINGS, "observer": "x" * 201},
            "observer",
            "Enter at most 200 characters. This text has 201.",
        ),
        (
            SettingsForm,
            {**SETTINGS, "nonsense": "1"},
            FORM,
            "This page has no field “nonsense”. Reload the page, then send the form again.",
        ),
        (NewTokenForm, {**TOKEN, "scopes": []}, "scopes", "Choose at least one of the scopes."),
        (
            NewTokenForm,
            {**TOKEN, "scopes": "everything"},
            "scopes",
            "“everything” is not one of the choices. Choose the scopes again.",
        ),
        (
            NewTokenForm,
            {**TOKEN, "expires_in_days": "0"},
            "expires_in_days",
            "Choose a period.",
        ),
        (
            NewUser,
            {**USER, "email": "anna"},
            "email",
            "“anna” is not an email address: write name@host.",
        ),
        (
            NewUser,
            {"name": "Anna B"},
            "name",
            "Use 1 to 64 lowercase letters, digits, dots, dashes and underscores, and begin with a letter or digit.",
        ),
        (NewAgentForm, {"mission": ""}, "mission", "Enter the mission."),
    ],
)
def test_a_wrong_field_has_one_sentence(
    model: type[BaseModel], fields: dict[str, object], field: str, sentence: str
) -> None:
    form = validated(model, fields)
    assert form.model is None
    assert form.status == HTTPStatus.UNPROCESSABLE_ENTITY
    assert dict(form.errors) == {field: sentence}


def test_every_wrong_field_is_named_at_once() -> None:
    form = validated(SettingsForm, {"name": "/", "interval_seconds": "x"})
    assert set(form.errors) == {
        "version",
        "name",
        "interval_seconds",
        "entailment_usd_per_day",
        "entailment_share",
    }


def test_what_was_typed_is_kept_also_where_it_is_wrong() -> None:
    form = validated(
        SettingsForm, {**SETTINGS, "barred_domains": "press.example, co.uk", "name": ""}
    )
    assert form.text("barred_domains") == "press.example, co.uk"
    assert (form.text("name"), form.text("observer")) == ("", "")
    assert "“co.uk” is a public suffix" in form.errors["barred_domains"]


def test_a_valid_form_has_its_model() -> None:
    typed = {
        **SETTINGS,
        "preferred_domains": "reuters.com\r\nft.com",
        "max_interval_seconds": "1 h 30 min",
        "observer": " gpt ",
        "conversation": "",
        "usd_per_day": "2.5",
        "advice_from_one_analysis": "true",
    }
    form = validated(SettingsForm, typed)
    assert not form.errors
    assert form.model is not None
    assert (form.model.interval_seconds, form.model.max_interval_seconds) == (300, 5400)
    assert form.model.preferred_domains == ["reuters.com", "ft.com"]
    assert form.model.models == {Phase.OBSERVER: "gpt"}
    assert (form.model.caps.usd_per_day, form.model.caps.calls_per_day) == (Decimal("2.5"), None)
    assert form.has("advice_from_one_analysis")
    assert form.model.advice_from_one_analysis


def test_several_values_of_a_list_are_kept() -> None:
    form = validated(NewTokenForm, {**TOKEN, "scopes": ["read", "write"]})
    assert form.model is not None
    assert form.model.scopes == {"read", "write"}
    assert form.has("scopes", "write")
    assert not form.has("scopes", "operator")


def test_a_refused_command_is_an_error_of_its_field_or_of_the_form() -> None:
    form = FormState.filled(name="Zinc", domains=["a.com", "b.com"], cap=None, is_on=True)
    assert (form.text("domains"), form.text("cap"), form.has("is_on")) == ("a.com\nb.com", "", True)
    taken = form.refused(ConflictError("taken", "it is taken"), {"taken": "name"})
    assert (taken.errors, taken.status) == ({"name": "It is taken."}, HTTPStatus.CONFLICT)
    other = form.refused(ConflictError("other", "Not now."), {"taken": "name"})
    assert other.errors == {FORM: "Not now."}


def test_values_in_messages_get_the_quotation_marks_of_forms_and_apostrophes_stay() -> None:
    form = FormState().with_error("name", "the agent's name 'x' is another agent's, not 'x y'")
    assert form.errors == {"name": "The agent's name “x” is another agent's, not “x y”."}


def test_a_field_is_titled_as_in_its_sentences() -> None:
    form = FormState()
    assert form.title("max_interval_seconds") == "Longest interval"
    assert form.title("entailment_usd_per_day") == "Budget for evidence checks"
    assert form.title("name") == "Name"
