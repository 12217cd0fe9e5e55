"""Sentences for what is wrong in a form's field, in place of pydantic's messages. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

LABELS: Final[Mapping[str, str]] = {
    "address": "address",
    "advice_generation": "model for advice",
    "agent": "agent",
    "analysis_generation": "model for analyses",
    "barred_domains": "barred domains",
    "budget_usd_per_day": "daily budget",
    "calls_per_day": "number of calls a day",
    "configuration": "model for configuration",
    "content": "text",
    "conversation": "model for conversation",
    "email": "email address",
    "entailment_check": "model for evidence checks",
    "entailment_share": "share of new evidence",
    "entailment_usd_per_day": "budget for evidence checks",
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


def _sentence(name: str, field: FieldInfo, details: ErrorDetails) -> str:
    if name in _CHOSEN:
        return _CHOSEN[name]
    write = _SENTENCES.get(details["type"], _other)
    return write(name, field, details)


_Write = Callable[[str, FieldInfo, ErrorDetails], str]


def _missing(name: str, field: FieldInfo, __: ErrorDetails) -> str:
    if get_origin(field.annotation) in (list, frozenset):
        return f"Choose at least one of the {label(name)}."
    return f"Enter the {label(name)}."


def _number(kind: str) -> _Write:
    def write(_: str, field: FieldInfo, details: ErrorDetails) -> str:
        return f"Enter {kind}{_range(field)}, not {_shown(details['input'])}."

    return write


def _bound(field: FieldInfo, details: ErrorDetails, words: str, limit: Any) -> str:
    kind = "a whole number" if int in _types(field.annotation) else "a number"
    return f"Enter {kind} {words} {_figure(limit)}, not {_shown(details['input'])}."


def _too_small(_: str, field: FieldInfo, details: ErrorDetails) -> str:
    return _bound(field, details, "of at least", _limit(details, "ge"))


def _too_large(_: str, field: FieldInfo, details: ErrorDetails) -> str:
    return _bound(field, details, "of at most", _limit(details, "le"))


def _too_short(_: str, __: FieldInfo, details: ErrorDetails) -> str:
    characters = _limit(details, "min_length")
    return f"Enter at least {characters} {'character' if characters == 1 else 'characters'}."


def _too_long(_: str, __: FieldInfo, details: ErrorDetails) -> str:
    limit, present = _limit(details, "max_length"), len(str(details["input"]))
    return f"Enter at most {limit:,} characters. This text has {present:,}."


def _too_few(name: str, _: FieldInfo, details: ErrorDetails) -> str:
    limit = _limit(details, "min_length")
    return f"Choose at least {'one' if limit == 1 else limit} of the {label(name)}."


def _too_many(name: str, _: FieldInfo, details: ErrorDetails) -> str:
    return f"Enter at most {_limit(details, 'max_length')} {label(name)}."


def _choice(name: str, _: FieldInfo, details: ErrorDetails) -> str:
    return f"{_shown(details['input'])} is not one of the choices. Choose the {label(name)} again."


def _decimal_places(_: str, __: FieldInfo, details: ErrorDetails) -> str:
    places = _limit(details, "decimal_places")
    return f"Enter a number with at most {places} decimal places, not {_shown(details['input'])}."


def _own(_: str, __: FieldInfo, details: ErrorDetails) -> str:
    """What a validator of Vigil says."""
    return as_sentence(str(details.get("ctx", {}).get("error", details["msg"])))


def _other(name: str, _: FieldInfo, details: ErrorDetails) -> str:
    return f"{_shown(details['input'])} cannot be used as the {label(name)}. Enter another value."


_WHOLE_NUMBER: Final = _number("a whole number")
_ANY_NUMBER: Final = _number("a number")
_SENTENCES: Final[Mapping[str, _Write]] = {
    "missing": _missing,
    "value_error": _own,
    "int_parsing": _WHOLE_NUMBER,
    "int_parsing_size": _WHOLE_NUMBER,
    "int_from_float": _WHOLE_NUMBER,
    "int_type": _WHOLE_NUMBER,
    "float_parsing": _ANY_NUMBER,
    "float_type": _ANY_NUMBER,
    "finite_number": _ANY_NUMBER,
    "decimal_parsing": _ANY_NUMBER,
    "decimal_type": _ANY_NUMBER,
    "decimal_max_places": _decimal_places,
    "greater_than_equal": _too_small,
    "less_than_equal": _too_large,
    "string_too_short": _too_short,
    "string_too_long": _too_long,
    "too_short": _too_few,
    "too_long": _too_many,
    "enum": _choice,
    "literal_error": _choice,
    "bool_parsing": _choice,
    "uuid_parsing": _choice,
}


def _limit(details: ErrorDetails, name: str) -> Any:
    return details.get("ctx", {})[name]


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
