"""Sentences for what is wrong in a form's field, in place of pydantic's messages. Pure."""

import re
from collections.abc import Mapping, Sequence
from numbers import Number
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

LABELS: Final[Mapping[str, str]] = {
    "actions": "actions",
    "address": "address",
    "advice_generation": "model for advice",
    "agent": "agent",
    "analysis_generation": "model for analyses",
    "archive_date": "archive date",
    "barred_domains": "barred domains",
    "budget_usd_per_day": "daily budget",
    "calls_per_day": "number of calls a day",
    "configuration": "model for configuration",
    "content": "text",
    "conversation": "model for conversation",
    "email": "email address",
    "entailment_share": "share of new evidence",
    "expires_in_days": "period",
    "feedback_rounds": "feedback rounds",
    "graph_construction": "model for graph construction",
    "interval_seconds": "interval",
    "knowledge_acquisition": "model for knowledge acquisition",
    "max_interval_seconds": "longest interval",
    "observer": "model for the Observer",
    "preferred_domains": "preferred domains",
    "usd_per_day": "amount a day",
    "user": "name or email address",
    "verification": "model for reading",
    "verification_usd_per_day": "budget for reading",
}
"""What a field is called within a sentence. Of other fields the name is used."""
_CHOSEN: Final[Mapping[str, str]] = {
    "expires_in_days": "Choose a period.",
    "feedback_rounds": "Choose how many feedback rounds.",
}
"""Numbers that pages offer as a list: nobody can enter another."""
FORM: Final = "form"
"""The place of an error that belongs to no field."""
_SHOWN_CHARS: Final = 40
_QUOTED: Final = re.compile(r"(?<!\w)'([^']*)'(?!\w)")
"""A value as Python writes it, but no apostrophe."""


def errors_by_field(model: type[BaseModel], error: ValidationError) -> dict[str, str]:
    """One sentence for each field that is wrong. What belongs to no field of the model is at FORM."""
    sentences: dict[str, str] = {}
    for details in error.errors():
        name = str(details["loc"][0]) if details["loc"] else FORM
        field = model.model_fields.get(name)
        if field is None or details["type"] == "none_required":
            sentences.setdefault(FORM, _unknown_field(name))
        else:
            sentences.setdefault(name, _sentence(name, field, details))
    return sentences


def as_sentence(message: str) -> str:
    """Begins with a capital letter, unless it begins with a value such as a domain, and ends with a full stop.

    Values within it get the quotation marks that all sentences of forms have.
    """
    text = _QUOTED.sub(r"“\1”", message.strip())
    if "." not in text.partition(" ")[0]:
        text = f"{text[:1].upper()}{text[1:]}"
    return f"{text.rstrip('.')}."


def label(name: str) -> str:
    return LABELS.get(name, name.replace("_", " "))


def _unknown_field(name: str) -> str:
    return f"This page has no field {_shown(name)}. Reload the page, then send the form again."


_PICKED: Final = "{shown} is not one of the choices. Choose the {label} again."
_SENTENCES: Final[Mapping[str, str]] = {
    "missing": "Enter the {label}.",
    **dict.fromkeys(
        ("int_parsing", "int_parsing_size", "int_from_float", "int_type"),
        "Enter a whole number{range}, not {shown}.",
    ),
    **dict.fromkeys(
        ("float_parsing", "float_type", "finite_number", "decimal_parsing", "decimal_type"),
        "Enter a number{range}, not {shown}.",
    ),
    "decimal_max_places": "Enter a number with at most {decimal_places} decimal places, not {shown}.",
    "greater_than_equal": "Enter {kind} of at least {ge}, not {shown}.",
    "less_than_equal": "Enter {kind} of at most {le}, not {shown}.",
    "string_too_short": "Enter at least {min_length} characters.",
    "string_too_long": "Enter at most {max_length} characters. This text has {length}.",
    "too_short": "Choose at least {min_length} of the {label}.",
    "too_long": "Enter at most {max_length} {label}.",
    **dict.fromkeys(("enum", "literal_error", "bool_parsing", "uuid_parsing"), _PICKED),
}
"""By the type of pydantic's error, with the limits of its context."""
_OTHER: Final = "{shown} cannot be used as the {label}. Enter another value."


def _sentence(name: str, field: FieldInfo, details: ErrorDetails) -> str:
    context, value = details.get("ctx", {}), details["input"]
    if name in _CHOSEN:
        return _CHOSEN[name]
    if details["type"] == "value_error":
        # What a validator of Vigil says.
        return as_sentence(str(context.get("error", details["msg"])))
    if details["type"] == "missing" and get_origin(field.annotation) in (list, frozenset):
        return f"Choose at least one of the {label(name)}."
    if details["type"] == "too_short" and context["min_length"] == 1:
        context = {"min_length": "one"}
    if details["type"] == "string_too_short" and context["min_length"] == 1:
        return "Enter at least 1 character."
    return _SENTENCES.get(details["type"], _OTHER).format(
        label=label(name),
        kind="a whole number" if int in _types(field.annotation) else "a number",
        range=_range(field),
        shown=_shown(value),
        length=_figure(len(str(value))),
        **{
            key: _figure(limit) if isinstance(limit, Number) else limit
            for key, limit in context.items()
        },
    )


def _range(field: FieldInfo) -> str:
    limits = [*field.metadata, *_limits(field.annotation)]
    low = next((each.ge for each in limits if isinstance(each, Ge)), None)
    high = next((each.le for each in limits if isinstance(each, Le)), None)
    if low is None or high is None:
        return ""
    return f" from {_figure(low)} to {_figure(high)}"


def _limits(annotation: Any) -> Sequence[Any]:
    """The constraints of the alternatives of a field."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else ()
    marks = [mark for part in parts for mark in getattr(part, "__metadata__", ())]
    return [
        each
        for mark in marks
        for each in (mark.metadata if isinstance(mark, FieldInfo) else [mark])
    ]


def _types(annotation: Any) -> Sequence[Any]:
    """The types of a field, without the alternatives' constraints."""
    if get_origin(annotation) in (Union, UnionType):
        return [each for part in get_args(annotation) for each in _types(part)]
    if hasattr(annotation, "__metadata__"):
        return _types(get_args(annotation)[0])
    return [annotation]


def _figure(number: Any) -> str:
    return f"{number:,}".removesuffix(".0")


def _shown(value: object) -> str:
    text = " ".join(str(value).split())
    return f"“{text[:_SHOWN_CHARS]}{'…' if len(text) > _SHOWN_CHARS else ''}”"
