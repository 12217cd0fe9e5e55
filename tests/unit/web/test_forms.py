"""Forms: what was typed is kept, and each wrong field has one sentence without words of pydantic."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from http import HTTPStatus

import pytest
from pydantic import BaseModel

from services.api.http.problem_details import ConflictError
from services.api.resources.accounts.api import NewUser
from services.api.web.form_errors import FORM
from services.api.web.forms import (
    FormState,
    NewAgentForm,
    NewTokenForm,
    SettingsForm,
    validated,
)
from shared.enums import Phase
from tests.support.case_files import read_cases

CASES = read_cases(__file__)

SETTINGS = {
    "version": "1",
    "name": "Zinc desk",
    "interval_seconds": "5 min",
    "entailment_share": "0.05",
}
TOKEN = {"name": "Backup", "scopes": ["read"], "expires_in_days": "90"}
USER = {"name": "anna"}
FORMS: dict[str, tuple[type[BaseModel], Mapping[str, object]]] = {
    "SettingsForm": (SettingsForm, SETTINGS),
    "NewTokenForm": (NewTokenForm, TOKEN),
    "NewUser": (NewUser, USER),
    "NewAgentForm": (NewAgentForm, {}),
}


@pytest.mark.parametrize(
    ("name", "changes", "field", "sentence"), CASES["a_wrong_field_has_one_sentence"]
)
def test_a_wrong_field_has_one_sentence(
    name: str, changes: dict[str, object], field: str, sentence: str
) -> None:
    model, fields = FORMS[name]
    form = validated(model, {**fields, **changes})
    assert form.model is None
    assert form.status == HTTPStatus.UNPROCESSABLE_ENTITY
    assert dict(form.errors) == {field: sentence}


def test_every_wrong_field_is_named_at_once() -> None:
    form = validated(SettingsForm, {"name": "/", "interval_seconds": "x"})
    assert set(form.errors) == {
        "version",
        "name",
        "interval_seconds",
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
        "archive_date": "2024-03-01",
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
    assert form.model.archive_date == date(2024, 3, 1)
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
    assert form.title("verification_usd_per_day") == "Budget for reading"
    assert form.title("name") == "Name"
