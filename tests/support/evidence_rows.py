"""Rows of evidence as the queries of readings return them."""

from types import SimpleNamespace
from typing import Any
from uuid import uuid4


def evidence_row(text: str, quote: str, **columns: Any) -> Any:
    """Evidence that quotes `quote` of a page with this text, for a Mill "Kesra" unless `columns` say otherwise."""
    start = text.index(quote)
    defaults: dict[str, Any] = {
        "type": "Mill",
        "name": "Kesra",
        "object_name": None,
        "properties": {},
        "evidence_id": uuid4(),
        "valid_from": None,
        "valid_to": None,
        "speaker": None,
        "title": "Kesra",
        "url": "https://kesra.example/mill",
        "published": None,
        "stated": None,
        "before": text[:start].encode(),
        "quote": quote.encode(),
        "after": text[start + len(quote) :].encode(),
    }
    return SimpleNamespace(**defaults | columns)
