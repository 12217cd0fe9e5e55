"""The nodes whose names a text mentions."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from shared.database.statements import BoundQuery, CompiledStatement, Row
from shared.database.tables.graph import NAME_IN_SMALL
from shared.graph.prompt_format import node_line, truncate_text, truncate_to_budget
from shared.graph.scope import IS_SUPPORTED_SQL, OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.types import RESERVED_TYPES
from shared.tools import Json

MAX_WORDS: Final = 7
"""Words of a name. Longer names are not found."""
MAX_PHRASES: Final = 3_000
MAX_NODES: Final = 40
TOKENS: Final = 1_900
_SUMMARY_CHARS: Final = 120
_MAX_KEYS: Final = 10
_WORD: Final = re.compile(r"\w(?:[\w'’.&/-]*\w)?")
_BREAK: Final = re.compile(r"[\n.;:!?|•\[\]]|\s[—–-]\s")
"""Ends a name. A full stop inside a word does not: see `_WORD`."""

_NAMED_SQL: Final = f"""
    from graph_nodes as node
    where agent_id = {OWNED_AGENT_ID_SQL} and {IS_SUPPORTED_SQL}
      and {NAME_IN_SMALL} = any(cast(:phrases as text[]))
    order by created_at, name, id limit {MAX_NODES}
    """
_NAMED: Final = CompiledStatement(f"select type, name, properties {_NAMED_SQL}")
_FRESH: Final = CompiledStatement(f"""
    select type, name, properties, array(
      select distinct key
      from evidence join sources on sources.id = evidence.source_id
      cross join lateral jsonb_each(claims) as claim (key, value)
      where node_id = node.id and learned_at > :since and learned_at <= :until
        and retracted_at is null and value = node.properties -> key
    ) as fresh
    {_NAMED_SQL}
    """)


@dataclass(frozen=True)
class FreshNode:
    type: str
    name: str
    properties: Json
    fresh: Sequence[str]
    """Properties whose values evidence has confirmed lately."""


def named_nodes(scope: GraphScope, text: str) -> BoundQuery[str]:
    """The lines for `<known_nodes>`: nodes whose names `text` mentions, in the order in which they were created.

    Each has the beginning of its summary and the names of further properties. Conclusions are not among them.
    """
    return BoundQuery(
        _NAMED, {**scope.sql_params, "phrases": list(phrases(text))}, partial(_lines, scope)
    )


def fresh_nodes(
    scope: GraphScope, text: str, since: datetime, until: datetime
) -> BoundQuery[list[FreshNode]]:
    """The nodes whose names `text` mentions, with the properties that evidence has confirmed `since`."""
    times = {"since": since, "until": until}
    params = {**scope.sql_params, "phrases": list(phrases(text)), **times}

    def read(rows: Sequence[Row]) -> list[FreshNode]:
        return [FreshNode(*row) for row in rows if row.type not in RESERVED_TYPES]

    return BoundQuery(_FRESH, params, read)


def phrases(text: str) -> Sequence[str]:
    """What can be a name in `text`, in small letters: up to MAX_WORDS words, of which the first has a capital or a digit."""
    return list(dict.fromkeys(phrase.lower() for phrase in _phrases(text)))[:MAX_PHRASES]


def _phrases(text: str) -> Iterator[str]:
    for part in _BREAK.split(text):
        places = [match.span() for match in _WORD.finditer(part)]
        for first, (start, _) in enumerate(places):
            if not (part[start].isupper() or part[start].isdigit()):
                continue
            for _, end in places[first : first + MAX_WORDS]:
                yield part[start:end]


def _lines(scope: GraphScope, rows: Sequence[Row]) -> str:
    lines = [
        node_line(None, row.type, row.name, _brief(row.properties))
        for row in rows
        if row.type not in RESERVED_TYPES
    ]
    return truncate_to_budget(lines, scope.budget_bytes(TOKENS))


def _brief(properties: Json) -> Json:
    summary = str(properties.get("summary", ""))
    others = [name for name in properties if name != "summary"]
    brief: Json = {"summary": truncate_text(summary, _SUMMARY_CHARS)} if summary else {}
    return brief | ({"has": others[:_MAX_KEYS]} if others else {})
