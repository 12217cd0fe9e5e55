"""Duplicate candidates: nodes with similar names, found by sorted-neighbourhood blocking.

A trigram search over a million names takes hundreds of milliseconds. So a new name is only compared with its
neighbours in three sort orders: by key (names that begin alike), by reversed key (names that end alike) and by its
words, longest first (the same words in another order). The cost does not depend on the number of names.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar
from uuid import UUID

from shared.database.statements import expand_values
from shared.database.transaction import Transaction
from shared.graph.entity_resolution.normalization import discriminators
from shared.graph.prompt_format import quote_name
from shared.graph.scope import IS_OWNED_SQL, OWNED_AGENT_ID_SQL, GraphScope
from shared.tools import ToolRefusalError

Id = TypeVar("Id", str, UUID)


def key_columns(key: str) -> dict[str, str]:
    """The columns of `graph_names` by which the key and its neighbours are found."""
    # The longest word first, so that names of the same words are neighbours whatever their order.
    words = sorted(key.split(), key=lambda word: (-len(word), word))
    return {"key": key, "reversed_key": key[::-1], "sorted_words_key": " ".join(words)}


def similarity(key: str, other_key: str) -> float:
    """Jaccard similarity of the trigrams of two keys, 0 to 1."""
    return _jaccard(_trigrams(key), _trigrams(other_key))


@dataclass(frozen=True)
class SimilarKey:
    key: str
    similarity: float


def similar_keys(key: str, other_keys: Iterable[str], threshold: float) -> Iterator[SimilarKey]:
    """The `other_keys` with at least this similarity to `key` and the same discriminators (numbers, dates)."""
    trigrams, own_discriminators = _trigrams(key), discriminators(key)
    size = len(trigrams)
    for other_key in dict.fromkeys(other_keys):
        other_trigrams = _trigrams(other_key)
        other_size = len(other_trigrams)
        # The similarity is at most the ratio of the sizes, which takes less time to compute.
        if (size / other_size if size < other_size else other_size / size) < threshold:
            continue
        value = _jaccard(trigrams, other_trigrams)
        if value >= threshold and discriminators(other_key) == own_discriminators:
            yield SimilarKey(other_key, value)


_CACHED_KEYS: Final = 4096
"""Every new name of a small graph is compared with nearly all others."""


@lru_cache(maxsize=_CACHED_KEYS)
def _trigrams(key: str) -> frozenset[str]:
    padded = [f"  {word} " for word in key.split()]
    return frozenset(word[index : index + 3] for word in padded for index in range(len(word) - 2))


def _jaccard(trigrams: frozenset[str], other_trigrams: frozenset[str]) -> float:
    shared = len(trigrams & other_trigrams)
    return shared / (len(trigrams) + len(other_trigrams) - shared)


DUPLICATE_THRESHOLD: Final = 0.55
"""Default similarity from which two names are reported as possible duplicates."""
MAX_CANDIDATES: Final = 5
_NEIGHBOURS_PER_SIDE: Final = 12
"""Names compared before and after the new one, in each sort order."""
_NODE_NAMES_SQL: Final = (
    f"select id, name from graph_nodes where {IS_OWNED_SQL} and id in ({{values}})"
)


@dataclass(frozen=True)
class DuplicateCandidate:
    """An existing node that may be the same entity."""

    node_id: UUID
    name: str
    similarity: float


async def rank_candidates(
    transaction: Transaction,
    scope: GraphScope,
    key: str,
    owners: Mapping[str, str],
    threshold: float,
) -> list[DuplicateCandidate]:
    """At most MAX_CANDIDATES nodes with names similar to `key`, the most similar first, from neighbouring keys and the nodes
    that own them.
    """
    similarities = {UUID(id_): value for id_, value in most_similar(key, owners, threshold).items()}
    names = await _load_names(transaction, scope, list(similarities))
    return [
        DuplicateCandidate(node_id, names[node_id], similarities[node_id])
        for node_id in similarities
        if node_id in names
    ]


def most_similar(key: str, owners: Mapping[str, Id], threshold: float) -> dict[Id, float]:
    """The similarity of the MAX_CANDIDATES most similar nodes, the most similar first."""
    similarities: dict[Id, float] = {}
    for candidate in similar_keys(key, owners, threshold):
        owner = owners[candidate.key]
        similarities[owner] = max(candidate.similarity, similarities.get(owner, 0.0))
    order = sorted(similarities, key=lambda node_id: (-similarities[node_id], node_id))[
        :MAX_CANDIDATES
    ]
    return {node_id: similarities[node_id] for node_id in order}


def refuse_undecided_duplicates(
    candidates: Sequence[DuplicateCandidate], distinct_from: Collection[UUID]
) -> None:
    """Raises ToolRefusalError unless `distinct_from` lists every candidate."""
    if all(candidate.node_id in distinct_from for candidate in candidates):
        return
    listing = ", ".join(
        f"[node:{candidate.node_id}] {quote_name(candidate.name)} ({candidate.similarity:.2f})"
        for candidate in candidates
    )
    ids = ", ".join(f'"{candidate.node_id}"' for candidate in candidates)
    raise ToolRefusalError(
        f"There is {listing}, which may be the same thing. If one of them is, add it under that name, with the page's "
        "spelling in aliases; "
        f"if none is, call again with distinctFrom: [{ids}]."
    )


async def _load_names(
    transaction: Transaction, scope: GraphScope, ids: Sequence[UUID]
) -> dict[UUID, str]:
    if not ids:
        return {}
    statement, params = expand_values(_NODE_NAMES_SQL, "id", ids)
    return {
        row.id: row.name
        for row in await statement.rows(transaction, {**scope.sql_params, **params})
    }


def neighbour_keys_sql(value: str) -> str:
    """SQL for the neighbouring keys of a name and their nodes, some more than once.

    `value` formats a column name of the name to look around; it contains `{}`.
    """
    return " union all ".join(
        f"(select key, node_id from graph_names where agent_id = {OWNED_AGENT_ID_SQL}"
        f" and type = {value.format('type')} and {column} {operator} {value.format(column)}"
        f" order by {column} {order} limit {_NEIGHBOURS_PER_SIDE})"
        for column in ("key", "reversed_key", "sorted_words_key")
        for operator, order in ((">=", "asc"), ("<", "desc"))
    )
