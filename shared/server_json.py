"""Reads JSON and errors of servers, which may send anything."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from html import unescape
from typing import Any, Final

import orjson

from shared.wording import clip

_MAX_INT_DIGITS: Final = 300


def read_json(text: str) -> Any:
    """Parses JSON. Raises ValueError if it is invalid or nested too deeply."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        # Servers also send what is not quite JSON: control characters in texts, NaN.
        try:
            return json.loads(text, strict=False, parse_int=_bounded_int)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None


def _bounded_int(digits: str) -> int | float:
    """Returns NaN for very long integers, which Python refuses to parse."""
    return int(digits) if len(digits) <= _MAX_INT_DIGITS else float("nan")


_MAX_ERROR_CHARACTERS: Final = 10_000


def words_of(error: Any, depth: int = 0) -> str:
    """The sentence of an error, wherever the server puts it; the error itself if it has none.

    Known are objects within objects, lists, the validation errors of FastAPI, the raw error that a gateway passes on, and
    HTML pages, of which it is the beginning of the text. A text `error` beside a `message` is the name of the error.
    """
    if depth > 4:
        return ""
    match error:
        case str():
            text = error[:_MAX_ERROR_CHARACTERS]
            with suppress(ValueError):
                inner = read_json(text) if text.lstrip()[:1] in ("{", "[") else None
                text = words_of(inner, depth + 1) or text
            return _words_of_page(text) if _PAGE.search(text[:1000]) else text.strip()
        case list():
            return "; ".join(
                dict.fromkeys(filter(None, (words_of(each, depth + 1) for each in error[:3])))
            )
        case dict():
            names = ("message", *_WORDS) if isinstance(error.get("error"), str) else _WORDS
            found = (words_of(error[name], depth + 1) for name in names if error.get(name))
            words = next(filter(None, found), "")
            if words and (place := _place_of(error)) and place not in words:
                words = f"{place}: {words}"
            metadata = error.get("metadata")
            if isinstance(metadata, dict) and (raw := words_of(metadata.get("raw"), depth + 1)):
                words = f"{words.rstrip('. ')}: {raw}" if raw not in words else words
            return words or ("" if depth else as_text(error))
        case _:
            return ""


_PAGE: Final = re.compile(r"<(?:!doctype html|html|body|head)\b", re.IGNORECASE)
_MARKUP: Final = re.compile(
    r"<(script|style)\b.*?</\1>|<!--.*?-->|<[^>]*>", re.IGNORECASE | re.DOTALL
)
_MAX_PAGE_CHARS: Final = 200


def _words_of_page(page: str) -> str:
    return clip(unescape(_MARKUP.sub(" ", page)), _MAX_PAGE_CHARS)


def _place_of(error: Mapping[str, Any]) -> str:
    """The part of the request that an error names beside its words, such as `response_format.type`; else empty."""
    if isinstance(place := error.get("loc"), list):
        return ".".join(map(str, place))
    place = next((error[name] for name in _PLACES if isinstance(error.get(name), str)), "")
    return ".".join(filter(None, re.split(r"[/#]+", place)))


_PLACES: Final = ("pointer", "parameter", "field", "path", "property", "location")
_WORDS: Final = (
    "error",
    "message",
    "msg",
    "detail",
    "error_message",
    "error_msg",
    "errors",
    "title",
    "reason",
    "description",
)
"""Fields of an error that can have its sentence, in order."""


def kind_of(value: Any) -> str:
    return {"NoneType": "null", "list": "a list", "dict": "an object", "str": "a text"}.get(
        type(value).__name__, f"a {type(value).__name__}"
    )


def as_text(value: Any) -> str:
    """`value` in Python's notation, for an excerpt."""
    try:
        return repr(value)
    except RecursionError:
        return f"{kind_of(value)} that is nested too deeply"
