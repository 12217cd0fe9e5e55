"""What a planned node or edge rests on, as the tools take it: pages by their address, sentences letter by letter."""

from collections.abc import Iterable, Mapping
from typing import Any

from sandbox.reader.construct.candidates import Mention
from sandbox.reader.construct.properties import Told

MAX_ENTRIES = 10
MAX_QUOTE_CHARS = 1_000


def of_mention(mention: Mention) -> dict[str, Any]:
    """An entry for all that is written with it."""
    return {"sourceUrl": mention.source.url, "quote": mention.sentence[:MAX_QUOTE_CHARS].strip()}


def of_properties(told: Mapping[str, Told]) -> list[dict[str, Any]]:
    """An entry for each sentence, with the names of the properties that it bears out."""
    entries: dict[tuple[str, str], dict[str, Any]] = {}
    for name, one in told.items():
        entry = of_mention(one.mention)
        entries.setdefault((entry["sourceUrl"], entry["quote"]), entry | {"properties": []})[
            "properties"
        ].append(name)
    return list(entries.values())


def borne_out(told: Mapping[str, Told]) -> dict[str, Told]:
    """Without what would take more entries than there can be, and what stands in no page that has an address."""
    kept: dict[str, Told] = {}
    for name, one in told.items():
        if one.mention.source.url and len(of_properties({**kept, name: one})) <= MAX_ENTRIES:
            kept[name] = one
    return kept


def values(told: Mapping[str, Told]) -> dict[str, Any]:
    """The properties as they are written."""
    return {name: one.value for name, one in told.items()}


def only(told: Mapping[str, Told], names: Iterable[str]) -> dict[str, Told]:
    """Those of these names."""
    return {name: told[name] for name in names}
