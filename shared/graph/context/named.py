"""The nodes whose names a text mentions."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from shared.database.statements import BoundQuery, CompiledStatement, Row
from shared.database.tables.graph import INITIALS_SQL, NAME_IN_SMALL
from shared.graph.context.standing import STANDS_SQL
from shared.graph.entity_resolution.normalization import fold_key, normalize_key
from shared.graph.prompt_format import (
    node_line,
    shorten_properties,
    truncate_text,
    truncate_to_budget,
)
from shared.graph.provenance.beside import beside_sql, stated_beside
from shared.graph.scope import OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.types import RESERVED_TYPES
from shared.tools import Json

MAX_WORDS: Final = 7
"""Words of a name. Longer names are not found."""
MAX_PHRASES: Final = 3_000
"""That begin with a capital or a digit."""
MAX_SMALL_PHRASES: Final = 6_000
"""That begin with a small letter."""
MAX_NODES: Final = 40
TOKENS: Final = 1_900
KNOWN_TOKENS: Final = 500
_SUMMARY_CHARS: Final = 120
_MAX_KEYS: Final = 10
_MAX_SHORT_FORMS: Final = 40
"""Words of a text that are looked up as parts of names, and as initials."""
_MIN_SHORT_CHARS: Final = 4
_CAPITALS: Final = re.compile(r"[A-Z]{3,7}")
_WORD: Final = re.compile(r"\w(?:[\w'’.&/-]*\w)?")
_LETTERS: Final = re.compile(r"[^\W_]+")
_BREAK: Final = re.compile(r"[\n.;:!?|•\[\]]|\s[—–-]\s")
"""Ends a name. A full stop inside a word does not: see `_WORD`."""

_NAMED_SQL: Final = f"""
    from graph_nodes as node
    where agent_id = {OWNED_AGENT_ID_SQL} and {STANDS_SQL}
      and {NAME_IN_SMALL} = any(cast(:phrases as text[]))
    order by created_at, name, id limit {MAX_NODES}
    """
_NEIGHBOURS: Final = 16
_EDGES_OF_NODE: Final = 12
"""Newest edges of each direction of a named node, whose other ends are candidates."""
_MAX_NEAR: Final = 12
"""Nodes that are not named in full."""
_STEM_CHARS: Final = 5
# Each type's names are looked up by their keys, and by their neighbours in the orders of the indexes: those of which a short
# form is the beginning, the end, or the initials. These, and what is joined with a named node, are candidates: the text has
# at least half of the words of their names, and all numbers. The initials are enough.
_MENTIONED: Final = CompiledStatement(f"""
    with short as (
      select * from unnest(cast(:short as text[]), cast(:reversed as text[])) as short (form, reversed)
    ), mentioned as (
      select id, 0 as rank from graph_nodes
      where agent_id = {OWNED_AGENT_ID_SQL} and {NAME_IN_SMALL} = any(cast(:phrases as text[]))
      union all
      select held.node_id, 0 from graph_node_types as of_type cross join lateral (
        select node_id from graph_names
        where agent_id = of_type.agent_id and type = of_type.name and key = any(cast(:keys as text[]))
      ) as held
      where of_type.agent_id = {OWNED_AGENT_ID_SQL}
      union all
      select near.node_id, 1 from short cross join lateral (
        select beside.node_id from graph_node_types as of_type cross join lateral (
          (select node_id, key from graph_names
           where agent_id = of_type.agent_id and type = of_type.name and key > form || ' ' and key < form || '!'
           order by key limit {_NEIGHBOURS})
          union all
          (select node_id, key from graph_names
           where agent_id = of_type.agent_id and type = of_type.name
             and reversed_key > reversed || ' ' and reversed_key < reversed || '!'
           order by reversed_key limit {_NEIGHBOURS})
        ) as beside
        where of_type.agent_id = {OWNED_AGENT_ID_SQL}
      ) as near
      union all
      select held.node_id, 2 from unnest(cast(:initials as text[])) as wanted (initials)
      cross join graph_node_types as of_type cross join lateral (
        select node_id from graph_names
        where agent_id = of_type.agent_id and type = of_type.name and key like '% % %'
          and {INITIALS_SQL} = wanted.initials
        limit 2
      ) as held
      where of_type.agent_id = {OWNED_AGENT_ID_SQL}
    ), candidate as (
      select id, rank from mentioned
      union all
      select joined.id, 1 from mentioned cross join lateral (
        (select target_id as id from graph_edges where source_id = mentioned.id
         order by updated_at desc limit {_EDGES_OF_NODE})
        union all
        (select source_id from graph_edges where target_id = mentioned.id
         order by updated_at desc limit {_EDGES_OF_NODE})
      ) as joined where mentioned.rank = 0
    ), scored as (
      select node.id, node.type, node.name, node.properties, node.created_at, candidate.rank > 0 as is_near,
        case when rank > 0 then row_number() over (
          partition by rank = 0
          order by rank desc,
            -- The surname of a person is half of a name.
            hits / words + 0.1 * least(hits, 5) + case when words <= 2 then 0.6 else 0 end desc,
            node.updated_at desc, node.name, node.id
        ) end as place
      from (
        select id, case when min(rank) = 0 then 0 else max(rank) end as rank from candidate group by id
      ) as candidate
      cross join lateral (
        select * from graph_nodes
        where id = candidate.id and agent_id = {OWNED_AGENT_ID_SQL} and {STANDS_SQL}
          and type <> all(cast(:reserved as text[]))
        limit 1
      ) as node
      cross join lateral (
        select greatest(count(*), 1)::float as words, count(*) filter (where is_there) as hits,
          count(*) filter (where is_number and not is_there) as other_numbers
        from (
          select left(word, {_STEM_CHARS}) = any(cast(:stems as text[])) as is_there, word ~ '^[0-9]+$' as is_number
          from regexp_split_to_table(lower(node.name), '[^[:alnum:]]+') as word
          where length(word) > 3 or word ~ '[0-9]'
        ) as word
      ) as shared
      where rank <> 1 or (2 * hits >= words and hits > 0 and other_numbers = 0)
    )
    select scored.type, scored.name, scored.properties, beside.stated
    from scored
    cross join lateral {beside_sql("node_id", "scored", "scored.properties")} as beside
    where not is_near or place <= {_MAX_NEAR}
    order by is_near, place, created_at, name, id limit {MAX_NODES}
    """)
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
    """The lines for `<known_nodes>`: nodes whose names or aliases `text` mentions, in the order of their creation, then
    those of whose names it has most: with a short form (the beginning or the end of a name, or its initials), or joined with
    a node that it mentions.

    The case of the letters does not matter; an alias or a short form must begin with a capital or a digit. Each node has the
    beginning of its summary and the names of further properties. Conclusions are not among them.
    """
    return BoundQuery(_MENTIONED, _names_in(scope, text), partial(_lines, scope))


def known_facts(scope: GraphScope, text: str) -> BoundQuery[str]:
    """The lines for `<known>`: the nodes that `text` mentions, as in `named_nodes`, with their values, shortened, and
    contested and upcoming ones.
    """

    def read(rows: Sequence[Row]) -> str:
        lines = [
            " ".join(filter(None, [_known(row), stated_beside(row.stated, row.properties)]))
            for row in rows
        ]
        return truncate_to_budget(lines, scope.budget_bytes(KNOWN_TOKENS))

    return BoundQuery(_MENTIONED, _names_in(scope, text), read)


def _known(row: Row) -> str:
    return node_line(None, row.type, row.name, shorten_properties(row.properties, _SUMMARY_CHARS))


def _names_in(scope: GraphScope, text: str) -> Mapping[str, Any]:
    capitalized = list(dict.fromkeys(_phrases(text, is_small=False)))[:MAX_PHRASES]
    small = list(dict.fromkeys(_phrases(text, is_small=True)))[:MAX_SMALL_PHRASES]
    named = {
        "phrases": [phrase.lower() for phrase in (*capitalized, *small)],
        "keys": [normalize_key(phrase) for phrase in capitalized],
    }
    stems = {word.lower()[:_STEM_CHARS] for word in _LETTERS.findall(text)}
    return {
        **scope.sql_params,
        **named,
        "stems": sorted(stems),
        "reserved": sorted(RESERVED_TYPES),
        **_short_forms(text),
    }


def _short_forms(text: str) -> Mapping[str, list[str]]:
    """What can be a part of a name, or its initials: capitalized words, the most frequent first."""
    words = Counter(
        match[0].removesuffix("'s").removesuffix("’s")
        for match in _WORD.finditer(text)
        if match[0][0].isupper()
    )
    keys = [normalize_key(word) for word, _ in words.most_common()]
    short = [key for key in keys if len(key) >= _MIN_SHORT_CHARS][:_MAX_SHORT_FORMS]
    initials = [
        word.lower() for word, _ in words.most_common() if _CAPITALS.fullmatch(word) is not None
    ]
    return {
        "short": short,
        "reversed": [fold_key(key)[::-1] for key in short],
        "initials": initials[:_MAX_SHORT_FORMS],
    }


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
    found = _phrases(text, is_small=False)
    return list(dict.fromkeys(phrase.lower() for phrase in found))[:MAX_PHRASES]


def _phrases(text: str, *, is_small: bool) -> Iterator[str]:
    """Up to MAX_WORDS words each; of the first, `is_small` says whether it begins with a small letter."""
    for part in _BREAK.split(text):
        places = [match.span() for match in _WORD.finditer(part)]
        for first, (start, _) in enumerate(places):
            if is_small == (part[start].isupper() or part[start].isdigit()):
                continue
            for _, end in places[first : first + MAX_WORDS]:
                yield part[start:end]


def _lines(scope: GraphScope, rows: Sequence[Row]) -> str:
    lines = [node_line(None, row.type, row.name, _brief(row.properties)) for row in rows]
    return truncate_to_budget(lines, scope.budget_bytes(TOKENS))


def _brief(properties: Json) -> Json:
    summary = str(properties.get("summary", ""))
    others = [name for name in properties if name != "summary"]
    brief: Json = {"summary": truncate_text(summary, _SUMMARY_CHARS)} if summary else {}
    return brief | ({"has": others[:_MAX_KEYS]} if others else {})
