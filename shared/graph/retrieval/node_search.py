"""Search for nodes by words, meaning, types and times, at a bounded cost.

The SQL is handwritten because building a statement with SQLAlchemy takes longer than running it.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import IntEnum
from functools import cache, lru_cache, partial
from itertools import compress
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, func
from sqlalchemy.dialects.postgresql import TSQUERY

from shared.billing import embedding_cache
from shared.billing.embedding_cache import EmbeddingRequest, Vector
from shared.database import pgvector
from shared.database.statements import CompiledStatement
from shared.database.tables.graph import (
    AS_VECTOR,
    DIMENSIONS,
    NAME_IN_SMALL,
    NAME_WORDS,
    PROPERTY_WORDS,
)
from shared.database.transaction import Transaction
from shared.graph.scope import IS_SUPPORTED_SQL, OWNED_AGENT_ID_SQL, GraphScope

MAX_WORDS: Final = 8
COMMON_NODES: Final = 5_000
"""A word in more nodes than this says little, and fetching them would cost more than the answer is worth."""
_COUNTS_PER_WORD: Final = 3
_LARGE_SHARE_DIVISOR: Final = 4
"""An agent with at least one in this many of all nodes counts as large."""
_MAX_TEXT_CHARS: Final = 200
"""Of the search text, as of a name."""
_MIN_PREFIX_CHARS: Final = 4
"""A word of at least this length is also searched as the prefix of words in names."""


@dataclass(frozen=True)
class SearchTerms:
    """`whole` is the text on one line, `words` its first distinct words in lower case."""

    whole: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class SelectiveTerms:
    """The words that few nodes contain, in their names and in their properties."""

    in_names: tuple[str, ...]
    in_properties: tuple[str, ...]
    prefixes: tuple[str, ...]
    """Longer words that few words of names start with."""
    common: tuple[str, ...]
    """Words that are selective in neither."""
    owns_many: bool
    """Whether the agent has a large share of all nodes; then the index need not filter by agent, which is slower."""


def parse_terms(search_text: str) -> SearchTerms | None:
    """None if the text has no words."""
    # PostgreSQL rejects NUL in parameters, and a lone surrogate cannot be encoded.
    clean = search_text.replace("\x00", " ").encode(errors="ignore").decode()
    words = clean.split(maxsplit=MAX_WORDS)[:MAX_WORDS]
    if not words:
        return None
    distinct_words = dict.fromkeys(word[:_MAX_TEXT_CHARS].lower() for word in words)
    phrase = " ".join(clean[: 4 * _MAX_TEXT_CHARS].split())
    return SearchTerms(phrase[:_MAX_TEXT_CHARS], tuple(distinct_words))


def all_words_query(words: Sequence[str]) -> ColumnElement[str]:
    """The tsquery that matches all words, each as a prefix."""
    joined = " & ".join(map(_prefix_term, words))
    return func.to_tsquery("simple", joined, type_=TSQUERY)


def _term_params(terms: SearchTerms, selective: SelectiveTerms) -> dict[str, Any]:
    common = [word for word in terms.words if word not in selective.in_properties]
    return {
        "whole": terms.whole,
        "patterns": _like_patterns(terms.words),
        "all_words": " & ".join(map(_quote_term, terms.words)),
        "any_in_names": " | ".join(map(_quote_term, selective.in_names)),
        "any_begins": " | ".join(map(_prefix_term, selective.prefixes)),
        "any_in_properties": " | ".join(map(_quote_term, selective.in_properties)),
        "common_in_properties": _like_patterns(common),
    }


async def select_terms(
    transaction: Transaction, scope: GraphScope, terms: SearchTerms
) -> SelectiveTerms:
    """Find the selective words by the planner's row estimates, so that nothing has to be counted."""
    values: dict[str, Any] = {"agent": scope.agent_id}
    for index, word in enumerate(terms.words):
        values |= {f"word{index}": _quote_term(word), f"beginning{index}": _prefix_term(word)}
    plan = await _plan_statement(len(terms.words)).value(transaction, values)
    all_rows, agent_rows, *word_rows = (part["Plan Rows"] for part in plan[0]["Plan"]["Plans"])
    is_selective = [nodes <= COMMON_NODES for nodes in word_rows]
    in_names, in_properties, short_prefixes = (
        tuple(compress(terms.words, is_selective[offset::_COUNTS_PER_WORD]))
        for offset in range(_COUNTS_PER_WORD)
    )
    prefixes = tuple(word for word in short_prefixes if len(word) >= _MIN_PREFIX_CHARS)
    selective = {*in_names, *in_properties}
    common = tuple(word for word in terms.words if word not in selective)
    owns_many = agent_rows * _LARGE_SHARE_DIVISOR >= all_rows
    return SelectiveTerms(in_names, in_properties, prefixes, common, owns_many)


async def has_few_similar_names(
    transaction: Transaction, scope: GraphScope, terms: SearchTerms
) -> bool:
    """Whether the planner estimates few nodes with a name similar to the whole text.

    A separate call, because it takes as long as all words together and is rarely needed.
    """
    plan = await _SIMILAR_NAMES_PLAN.value(
        transaction, {"agent": scope.agent_id, "whole": terms.whole}
    )
    is_few: bool = plan[0]["Plan"]["Plan Rows"] <= COMMON_NODES
    return is_few


_FROM_OWN: Final = "select from graph_nodes where agent_id = :agent and"
_SIMILAR_NAMES_PLAN: Final = CompiledStatement(f"explain (format json) {_FROM_OWN} name %> :whole")


@cache
def _plan_statement(words: int) -> CompiledStatement:
    """Explain statement whose subplans estimate the number of nodes: all, the agent's, and those with each word."""
    conditions = ["true"]
    for index in range(words):
        conditions += [f"{NAME_WORDS} @@ to_tsquery('simple', :word{index})"]
        conditions += [f"{PROPERTY_WORDS} @@ to_tsquery('simple', :word{index})"]
        conditions += [f"{NAME_WORDS} @@ to_tsquery('simple', :beginning{index})"]
    own = (f"{_FROM_OWN} {condition}" for condition in conditions)
    return CompiledStatement(
        f"explain (format json) {' union all '.join(['select from graph_nodes', *own])}"
    )


def _quote_term(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


def _prefix_term(word: str) -> str:
    return f"{_quote_term(word)}:*"


def _like_patterns(words: Sequence[str]) -> list[str]:
    """Patterns for texts that contain the word anywhere; special characters match literally."""
    return ["%" + re.sub(r"([\\%_])", r"\\\1", word) + "%" for word in words]


_WORD: Final = re.compile(r"\w+")


class MatchStrategy(IntEnum):
    """How a node was found. Of two nodes whose names contain as many words, the lower value ranks first."""

    NAMED = 0
    ALL_IN_NAME = 1
    ANY_IN_NAME = 2
    BEGINS = 3
    ALIKE = 4
    ALL_IN_PROPERTIES = 5
    ANY_IN_PROPERTIES = 6
    NEAR = 7
    """Similar in meaning, if embeddings are configured."""
    NEWEST = 8


_OF_SOME_WORDS: Final = frozenset(
    (
        MatchStrategy.ANY_IN_NAME,
        MatchStrategy.BEGINS,
        MatchStrategy.ANY_IN_PROPERTIES,
        MatchStrategy.NEWEST,
    )
)
"""Strategies that may find nodes which contain only some of the words."""


@dataclass(frozen=True)
class Candidate:
    id: UUID
    name: str
    updated_at: datetime
    strategy: int
    rank: int = 0
    """Rank within the strategy, if it has one."""


def rank_candidates(
    candidates: Collection[Candidate], terms: SearchTerms | None = None
) -> list[Candidate]:
    """Remove duplicates and rank: exact name, then most words in the name, then strategy; newer nodes first."""
    best: dict[UUID, Candidate] = {}
    for candidate in candidates:
        if candidate.id not in best or candidate.strategy < best[candidate.id].strategy:
            best[candidate.id] = candidate
    newest = sorted(
        best.values(), key=lambda candidate: (-candidate.updated_at.timestamp(), candidate.id)
    )
    if terms is None:
        return newest
    return sorted(newest, key=lambda candidate: _rank_key(candidate, terms))


def _rank_key(candidate: Candidate, terms: SearchTerms) -> tuple[bool, int, int, int]:
    name = candidate.name.lower()
    name_words = set(_WORD.findall(name))
    hits = sum((word in name) + (word in name_words) for word in terms.words)
    return name != terms.whole.lower(), -hits, candidate.strategy, candidate.rank


@dataclass(frozen=True)
class VectorQuery:
    """A query vector and the least similarity of results."""

    vector: Vector
    model: str
    min_similarity: float


@dataclass(frozen=True)
class EmbeddingSearch:
    """Search by embeddings: the model, and the least cosine similarity of results, 0 to 1."""

    model: str
    min_similarity: float

    def request(self, text: str | None) -> EmbeddingRequest | None:
        """The embedding request for the text; None if it has no words."""
        terms = parse_terms(text or "")
        return None if terms is None else EmbeddingRequest(self.model, (terms.whole,))

    async def near(
        self, transaction: Transaction, scope: GraphScope, text: str | None
    ) -> VectorQuery | None:
        """The vector query for the text; None if the ledger has no vector for it, or the server has no pgvector."""
        request = self.request(text)
        if request is None or not await pgvector.is_installed(transaction):
            return None
        vectors = await embedding_cache.find_vectors(
            transaction, scope.agent_id, request, owner_id=scope.owner_id
        )
        return None if vectors is None else VectorQuery(vectors[0], self.model, self.min_similarity)


MAX_NEAR_NODES: Final = 10
"""Nodes that one search adds for their meaning."""
MAX_EXACT_VECTORS: Final = 5_000
"""Up to this many vectors of an agent are all compared, which takes milliseconds and is exact.

Above it, the index is used, which may miss some.
"""
_MAX_NEAREST: Final = 100
"""The nearest nodes, before the filters for types and times."""


async def nearest_nodes(
    transaction: Transaction, scope: GraphScope, near: VectorQuery
) -> list[UUID]:
    """Nodes that are similar enough, the most similar first."""
    params = {
        **scope.sql_params,
        "vector": list(near.vector),
        "model": near.model,
        "farthest": 1 - near.min_similarity,
        "most": MAX_EXACT_VECTORS,
    }
    is_few = await _HAS_FEW_VECTORS.value(transaction, params)
    if not is_few:
        # One index holds the vectors of all agents: the scan continues until enough of this agent's are found. In strict
        # order it would drop late matches, so the results are sorted afterwards.
        await _SCAN_ON.run(transaction)
    rows = await (_NEAREST_EXACT if is_few else _NEAREST_BY_INDEX).rows(transaction, params)
    return [row.node_id for row in rows]


def order_by_ids(candidates: Sequence[Candidate], ids: Sequence[UUID]) -> list[Candidate]:
    """The candidates in the order of `ids`, at most MAX_NEAR_NODES."""
    ranks = {node_id: rank for rank, node_id in enumerate(ids)}
    ranked = [replace(candidate, rank=ranks[candidate.id]) for candidate in candidates]
    return sorted(ranked, key=lambda candidate: candidate.rank)[:MAX_NEAR_NODES]


_OWN_VECTORS: Final = f"agent_id = {OWNED_AGENT_ID_SQL} and model = :model"
_DISTANCE_SQL: Final = f"<=> cast(cast(:vector as real[]) as vector({DIMENSIONS}))"
_SCAN_ON: Final = CompiledStatement("set local hnsw.iterative_scan = relaxed_order")
_HAS_FEW_VECTORS: Final = CompiledStatement(
    "select count(*) <= :most from"
    f" (select from node_embeddings where {_OWN_VECTORS} limit cast(:most as bigint) + 1) own"
)
# Materialized, so that this agent's vectors are scanned instead of the index.
_NEAREST_EXACT: Final = CompiledStatement(
    f"with own as materialized (select node_id, {AS_VECTOR} as embedding from node_embeddings where {_OWN_VECTORS})"
    f" select node_id from own where embedding {_DISTANCE_SQL} <= :farthest"
    f" order by embedding {_DISTANCE_SQL} limit {_MAX_NEAREST}"
)
NEAREST_BY_INDEX_SQL: Final = (
    "select node_id from ("
    f"select node_id, {AS_VECTOR} {_DISTANCE_SQL} as far from node_embeddings where {_OWN_VECTORS}"
    f" order by {AS_VECTOR} {_DISTANCE_SQL} limit {_MAX_NEAREST}) nearest"
    # "+ 0" forces a sort; otherwise the planner assumes the scan's order.
    " where far <= :farthest order by far + 0"
)
_NEAREST_BY_INDEX: Final = CompiledStatement(NEAREST_BY_INDEX_SQL)


MAX_CANDIDATES: Final = 100
"""Nodes that are ranked; each strategy fetches at most this many."""
_MAX_PROPERTY_SCANS: Final = 50
"""Of the most recently updated nodes, those whose properties are searched for common words."""
_MAX_CACHED_STATEMENTS: Final = 128


@dataclass(frozen=True)
class SearchCriteria:
    """The conditions of a search. `types` and `ids` are alternatives; empty means any."""

    text: str | None = None
    types: Sequence[str] = ()
    ids: Sequence[UUID] = ()
    updated_since: datetime | None = None
    near: VectorQuery | None = None
    """The text as a query vector, if available."""


@dataclass(frozen=True)
class SearchResult:
    """Ids, the best match first."""

    ids: list[UUID]
    is_all: bool
    common: Sequence[str] = ()
    """Very common words, which were only searched in the most recently updated nodes."""


async def search_nodes(
    transaction: Transaction, scope: GraphScope, criteria: SearchCriteria, limit: int
) -> SearchResult:
    """Search nodes: at most `limit`, by match quality and then by last update."""
    find = partial(_candidates, transaction, scope, criteria)
    terms = parse_terms(criteria.text or "")
    common: Sequence[str] = ()
    if terms is None:
        candidates = await find([(MatchStrategy.NEWEST, _GIVEN if criteria.ids else _NEWEST)], {})
    elif criteria.ids:
        patterns = {"patterns": _like_patterns(terms.words)}
        candidates = await find([(MatchStrategy.NEWEST, _GIVEN_THAT_HOLD)], patterns)
    else:
        selective = await select_terms(transaction, scope, terms)
        common = selective.common
        values = _term_params(terms, selective)
        candidates = await find(
            _match_strategies(terms, selective), values, prefers_name=len(terms.words) > 1
        )
        if _may_be_misspelled(candidates, selective) and await has_few_similar_names(
            transaction, scope, terms
        ):
            similar = _index_lookup_sql(_SIMILAR_NAME, by_agent=not selective.owns_many)
            candidates += await find([(MatchStrategy.ALIKE, similar)], values)
        if criteria.near is not None:
            ids = await nearest_nodes(transaction, scope, criteria.near)
            nearest = await find([(MatchStrategy.NEAR, _GIVEN)], {"ids": ids})
            candidates += order_by_ids(nearest, ids)
    ranked = rank_candidates(candidates, terms)
    return SearchResult(
        [candidate.id for candidate in ranked[:limit]], len(ranked) <= limit, common
    )


def _may_be_misspelled(candidates: Sequence[Candidate], selective: SelectiveTerms) -> bool:
    """No name contains a selective word of the text, and no properties contain all words."""
    return bool(selective.in_names) and not any(
        candidate.strategy == MatchStrategy.ALL_IN_PROPERTIES
        or any(word in candidate.name.lower() for word in selective.in_names)
        for candidate in candidates
    )


async def _candidates(
    transaction: Transaction,
    scope: GraphScope,
    criteria: SearchCriteria,
    strategies: Iterable[tuple[MatchStrategy, str]],
    values: Mapping[str, Any],
    *,
    prefers_name: bool = False,
) -> list[Candidate]:
    """Run the strategies in order until there are enough candidates: the best and cheapest come first.

    With `prefers_name`, those that find some of the words alone are not run if the whole text is a node's name.
    """
    statement = _statement(
        tuple(strategies),
        of_types=bool(criteria.types),
        since=criteria.updated_since is not None,
        prefers_name=prefers_name,
    )
    rows = await statement.rows(
        transaction,
        {
            **scope.sql_params,
            "ids": list(criteria.ids),
            "types": list(criteria.types),
            "since": criteria.updated_since,
            **values,
        },
    )
    return [Candidate(*row) for row in rows]


@lru_cache(maxsize=_MAX_CACHED_STATEMENTS)
def _statement(
    strategies: tuple[tuple[MatchStrategy, str], ...],
    *,
    of_types: bool,
    since: bool,
    prefers_name: bool,
) -> CompiledStatement:
    newest = (_NEWEST_OF_TYPES if of_types else _NEWEST_OF_ALL).format(
        since=_SINCE if since else ""
    )
    conditions = f"true{_SINCE if since else ''}"
    named = [
        sql for strategy, sql in strategies if prefers_name and strategy == MatchStrategy.NAMED
    ]
    unless_named = f"not exists (select from named as candidates where {conditions})"
    branches = [
        f"(select *, {int(strategy)} as way from ({'table named' if sql in named else sql}) found"
        f" where {unless_named if named and strategy in _OF_SOME_WORDS else 'true'})"
        for strategy, sql in strategies
    ]
    statement = (
        (f"with named as materialized ({named[0]}) " if named else "")
        + f"select id, name, updated_at, way from ({' union all '.join(branches)}) candidates"
        f" where {conditions} limit {MAX_CANDIDATES}"
    )
    return CompiledStatement(
        statement.format(of_types=_OF_TYPES if of_types else "", newest=newest)
    )


def _match_strategies(
    terms: SearchTerms, selective: SelectiveTerms
) -> Iterator[tuple[MatchStrategy, str]]:
    def looked_up(condition: str) -> str:
        return _index_lookup_sql(condition, by_agent=not selective.owns_many)

    yield MatchStrategy.NAMED, _index_lookup_sql(_IS_NAMED)
    if selective.in_names or len(terms.words) > 1:
        yield MatchStrategy.ALL_IN_NAME, looked_up(_ALL_IN_NAME)
    if selective.in_names:
        yield MatchStrategy.ANY_IN_NAME, looked_up(_ANY_IN_NAME)
    if selective.prefixes:
        yield MatchStrategy.BEGINS, looked_up(_BEGINS)
    if selective.in_properties:
        yield MatchStrategy.ALL_IN_PROPERTIES, looked_up(_ALL_IN_PROPERTIES)
        yield MatchStrategy.ANY_IN_PROPERTIES, looked_up(_ANY_IN_PROPERTIES)
    yield MatchStrategy.NEWEST, _NEWEST_NAMED
    if len(selective.in_properties) < len(terms.words):
        yield MatchStrategy.NEWEST, _NEWEST_THAT_TELL


def _index_lookup_sql(condition: str, *, by_agent: bool = True) -> str:
    """`by_agent` makes the index filter by agent, too."""
    # Planned without the limit, so that PostgreSQL uses the index, but fetched only as far as needed. With the limit
    # inside, PostgreSQL sometimes prefers to scan the table until it has enough rows.
    of_agent = f"agent_id = {OWNED_AGENT_ID_SQL} and " if by_agent else ""
    return (
        "with found as materialized (select id, name, updated_at, agent_id from graph_nodes"
        f" where {of_agent}{condition} and {IS_SUPPORTED_SQL}{{of_types}})"
        f" select id, name, updated_at from found where agent_id = {OWNED_AGENT_ID_SQL} limit {MAX_CANDIDATES}"
    )


# The text is in a subselect, which hides it from the planner: so one plan serves every text. Planning each time takes
# as long as the search in a large graph, and the selective words are known already.
def _matches_sql(words: ColumnElement[str], parameter: str) -> str:
    return f"{words} @@ (select to_tsquery('simple', :{parameter}))"


def _patterns_sql(parameter: str) -> str:
    return f"(select cast(:{parameter} as text[]))::text[]"


_IS_NAMED: Final = f"{NAME_IN_SMALL} = lower(:whole)"
_ALL_IN_NAME: Final = _matches_sql(NAME_WORDS, "all_words")
_ANY_IN_NAME: Final = _matches_sql(NAME_WORDS, "any_in_names")
_BEGINS: Final = _matches_sql(NAME_WORDS, "any_begins")
_ALL_IN_PROPERTIES: Final = _matches_sql(PROPERTY_WORDS, "all_words")
_ANY_IN_PROPERTIES: Final = _matches_sql(PROPERTY_WORDS, "any_in_properties")
_SIMILAR_NAME: Final = "name %> :whole"

_OF_TYPES: Final = " and type = any(cast(:types as text[]))"
_NEWEST_OF_ALL: Final = (
    f"select * from graph_nodes where agent_id = {OWNED_AGENT_ID_SQL} and {IS_SUPPORTED_SQL}{{since}}"
    f" order by updated_at desc limit {MAX_CANDIDATES}"
)
# A lateral join per type: each type is a separate range of the index.
_NEWEST_OF_TYPES: Final = (
    "select newest.* from unnest(cast(:types as text[])) given (type) cross join lateral"
    f" (select * from graph_nodes where agent_id = {OWNED_AGENT_ID_SQL} and {IS_SUPPORTED_SQL}"
    " and graph_nodes.type = given.type{since}"
    f" order by updated_at desc limit {MAX_CANDIDATES}) newest"
    f" order by updated_at desc limit {MAX_CANDIDATES}"
)
_SHOWN: Final = "select id, name, updated_at from"
_NEWEST: Final = f"{_SHOWN} ({{newest}}) newest"
_NEWEST_NAMED: Final = f"{_NEWEST} where name ilike any({_patterns_sql('patterns')})"
_NEWEST_THAT_TELL: Final = (
    f"{_SHOWN} (select * from ({{newest}}) newest limit {_MAX_PROPERTY_SCANS}) newest"
    f" where properties::text ilike any({_patterns_sql('common_in_properties')})"
)
_GIVEN: Final = (
    f"{_SHOWN} graph_nodes where agent_id = {OWNED_AGENT_ID_SQL} and {IS_SUPPORTED_SQL}{{of_types}}"
    " and id = any(cast(:ids as uuid[]))"
)
_GIVEN_THAT_HOLD: Final = (
    f"{_GIVEN} and (name ilike any(cast(:patterns as text[]))"
    " or properties::text ilike any(cast(:patterns as text[])))"
)

_SINCE: Final = " and updated_at >= :since"
