"""Loads what a conclusion may have left out: other nodes, of the type of a cited one, that mention a figure it states.

A page that corrects or revises a figure mostly says the former one too.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from shared.database.statements import BoundQuery, CompiledStatement, json_text, uuid_array
from shared.database.tables.graph import PROPERTY_WORDS
from shared.graph.prompt_format import quote_name, shown_date, truncate_text
from shared.graph.provenance.claims import KNOWN_DATE_SQL
from shared.graph.scope import IS_SUPPORTED_SQL, OWNED_AGENT_ID_SQL, GraphScope
from shared.tools.readings import OWN_SIGNS

_MAX_NODES: Final = 20
"""Cited nodes for which others are looked up: those that are cited first."""
_MAX_SHOWN: Final = 2
"""Other nodes for each cited one: those that were updated last."""
_MIN_DIGITS: Final = 3
"""A figure of fewer digits stands in too many sentences. A decimal has one less."""
_MAX_QUOTE_CHARS: Final = 300
_FIGURE: Final = re.compile(r"\d+(?:[.,]\d+)*")
_YEAR: Final = re.compile(r"(?:19|20)\d\d")

_ELSEWHERE: Final = CompiledStatement(f"""
with cited as (
  select * from jsonb_to_recordset(cast(:cited as jsonb)) as cited (cited_id uuid, cited_type text, figures text)
)
select cited_id, other.type, other.name, quoted.said_on, quoted.quote
from cited cross join lateral (
  select id, type, name from graph_nodes
  where agent_id = {OWNED_AGENT_ID_SQL} and type = cited_type and {PROPERTY_WORDS} @@ cast(figures as tsquery)
    and {IS_SUPPORTED_SQL} and id <> all(cast(:shown as uuid[]))
  order by updated_at desc, id limit {_MAX_SHOWN}
) as other cross join lateral (
  -- Also of evidence that a model has found contradicted: its quote says what is so.
  select {KNOWN_DATE_SQL} as said_on,
    convert_from(substring(convert_to(text, 'UTF8'), first_byte + 1, end_byte - first_byte), 'UTF8') as quote
  from evidence join sources on sources.id = source_id and retracted_at is null
  where node_id = other.id and jsonb_to_tsvector('simple', claims, '["string", "numeric"]') @@ cast(figures as tsquery)
  order by as_of desc, evidence.id limit 1
) as quoted
order by cited_id, said_on desc nulls last, other.name, other.id
""")


def figures_in(text: str) -> frozenset[str]:
    """The figures of a text that few other texts have: no years, and no small whole numbers."""
    found = set()
    for written in _FIGURE.findall(text):
        plain = written.replace(",", "")
        is_decimal = "." in plain
        if len(plain.replace(".", "")) >= _MIN_DIGITS - is_decimal and not _YEAR.fullmatch(written):
            found.add(plain)
    return frozenset(found)


def elsewhere_query(
    scope: GraphScope,
    nodes: Mapping[UUID, tuple[str, Iterable[str]]],
    shown: Iterable[UUID],
) -> BoundQuery[dict[UUID, list[str]]]:
    """What other nodes than those `shown` say, in words, by cited node. `nodes` have its type and its stated figures."""
    cited = [
        {
            "cited_id": node_id,
            "cited_type": type_name,
            "figures": " | ".join(f"'{figure}'" for figure in sorted(figures)),
        }
        for node_id, (type_name, figures) in [*nodes.items()][:_MAX_NODES]
    ]
    params = {**scope.sql_params, "cited": json_text(cited), "shown": uuid_array(shown)}
    return BoundQuery(_ELSEWHERE, params, _read)


def _read(rows: Iterable[Any]) -> dict[UUID, list[str]]:
    found: dict[UUID, list[str]] = {}
    for row in rows:
        quote = truncate_text(" ".join(row.quote.translate(OWN_SIGNS).split()), _MAX_QUOTE_CHARS)
        text = f"{row.type} {quote_name(row.name)} ({shown_date(row.said_on)}): »{quote}«"
        found.setdefault(row.cited_id, []).append(text)
    return found
