"""Duplicate candidates: nodes with similar names, found by sorted-neighbourhood blocking.

A trigram search over a million names takes hundreds of milliseconds. So a new name is only compared with its
neighbours in three sort orders: by key (names that begin alike), by reversed key (names that end alike) and by its
words, longest first (the same words in another order); and with the names that it is the initials of, or that are its
initials. The cost does not depend on the number of names.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from shared.database.statements import expand_values
from shared.database.tables.graph import INITIALS_SQL
from shared.database.transaction import Transaction
from shared.graph.entity_resolution.comparison import Comparison, Described, Verdict, compare
from shared.graph.entity_resolution.facts import SUMMARY, Contradiction, identifying_facts, is_of
from shared.graph.entity_resolution.normalization import (
    discriminators,
    fold_key,
    normalize_key,
    transliterate,
)
from shared.graph.entity_resolution.relations import (
    UMLAUTS,
    Related,
    Relation,
    initial_letters,
    initials_of,
    person_of,
    relate,
    similarity,
    word_list_of,
)
from shared.graph.prompt_format import quote_name, truncate_text
from shared.graph.scope import IS_OWNED_SQL, OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.types import has_labels
from shared.tools import Json, ToolRefusalError

MAX_CANDIDATES: Final = 3
"""Candidates in one question."""
_MAX_LOADED: Final = 8
"""Candidates whose facts are compared."""
_MAX_DESCRIPTION_CHARS: Final = 80
_CAPITALIZED: Final = re.compile(r"[^\W\d_]*[A-ZÀ-ÖØ-Þ][\w’'-]*")
_MIN_REPEATED_WORDS: Final = 8
"""Words of a text that two things do not share by chance."""
_NEIGHBOURS_PER_SIDE: Final = 12
"""Names compared before and after the new one, in each sort order."""
_MAX_OF_INITIALS: Final = 6
"""Names that are compared because of their initials."""
MAX_INITIALS: Final = 8
_MAX_SHORT_INITIALS: Final = 3
_UMLAUT_OF: Final = {"ae": "ä", "oe": "ö", "ue": "ü"}
_AS_UMLAUT: Final = re.compile("ae|oe|ue")
_LETTER_AND_DIGIT: Final = re.compile(r"(?<=[a-z])(?=\d)|(?<=\d)(?=[a-z])")
_NODES_SQL: Final = (
    f"select id, name, properties from graph_nodes where {IS_OWNED_SQL} and id in ({{values}})"
)


def key_columns(key: str, type_name: str) -> dict[str, str]:
    """The columns of `graph_names` by which the key and its neighbours are found.

    The two orders that find similar names are those of the folded key, so that names that differ in accents are neighbours;
    of persons without titles and generations.
    """
    folded, latin = fold_key(key), transliterate(key)
    if is_of(type_name, "person"):
        folded, latin = (" ".join(person_of(each).names) for each in (key, latin))
    # The longest word first, so that names of the same words are neighbours whatever their order.
    ordered = sorted(latin.split(), key=lambda word: (-len(word), word))
    return {"key": key, "reversed_key": folded[::-1], "sorted_words_key": " ".join(ordered)}


def hint_keys(base: str, type_name: str) -> set[str]:
    """Keys that may be those of the same name in another spelling, or of a part of it, which may be no neighbours of it."""
    words = base.split()
    joined, of_type = "".join(words), type_name.lower()
    hints = {
        f"{base} {of_type}",
        f"{of_type} {base}",
        fold_key(base),
        base.translate(UMLAUTS),
        _AS_UMLAUT.sub(lambda match: _UMLAUT_OF[match[0]], base),
        _LETTER_AND_DIGIT.sub(" ", base),
        joined,
        " ".join(word_list_of(base)),
    }
    if len(words) > 1:
        hints |= {" ".join(words[1:]), " ".join(words[:-1]), *initials_of(words)}
    return {each for each in hints if each and each != base}


def letters_of(base: str) -> list[str]:
    """What the name can be the initials of: also without "o" for "of", and without a letter for a legal form."""
    letters = initial_letters(base)
    if not 1 < len(letters) <= MAX_INITIALS:
        return []
    forms = {letters, letters.replace("o", "")}
    if len(letters) > _MAX_SHORT_INITIALS:
        forms.add(letters[:-1])
    return sorted(forms)


class KnownName(NamedTuple):
    """A name that is reserved, as it was written, and its node."""

    node_id: UUID
    name: str


@dataclass(frozen=True)
class DuplicateCandidate:
    """An existing node that may be the same entity."""

    node_id: UUID
    name: str
    comparison: Comparison
    summary: str = ""

    @property
    def description(self) -> str:
        """What the model is shown of it."""
        given = contradiction_text(self.comparison.contradictions)
        summary = truncate_text(self.summary, _MAX_DESCRIPTION_CHARS)
        shown = "; ".join(part for part in (summary.rstrip("."), given) if part)
        return f"[node:{self.node_id}] {quote_name(self.name)}" + (f" ({shown})" if shown else "")


def contradiction_text(contradictions: Iterable[Contradiction]) -> str:
    """What the known node has in place of the given values."""
    return "; ".join(
        f"its {each.name} is {quote_name(truncate_text(each.other_value, _MAX_DESCRIPTION_CHARS))}"
        for each in contradictions
        if each.name != SUMMARY
    )


def most_similar(
    type_name: str,
    name: str,
    names: Iterable[KnownName],
    threshold: float,
    limit: int,
    *,
    is_supported: bool = False,
) -> dict[UUID, float]:
    """The scores of the nodes whose names are related to `name`, the most closely related first.

    `is_supported`: with the names that are related only if a fact agrees.
    """
    scores: dict[UUID, Related] = {}
    for known in names:
        related = relate(type_name, name, known.name, threshold, is_supported=is_supported)
        if related.relation is not Relation.NONE:
            scores[known.node_id] = max(related, scores.get(known.node_id, related))
    order = sorted(scores, key=lambda node_id: (scores[node_id], node_id.int), reverse=True)
    return {node_id: scores[node_id].score for node_id in order[:limit]}


async def judge_names(
    transaction: Transaction,
    scope: GraphScope,
    described: Described,
    names: Collection[KnownName],
    threshold: float,
    properties: Json,
    schema: Json,
) -> list[DuplicateCandidate]:
    """The nodes that may be the thing described, the most likely first, without those that are not it.

    They have related names, or similar names and the same summary. `properties` are those of the thing described.
    """
    similar = most_similar(
        described.type_name,
        described.name,
        names,
        threshold,
        _MAX_LOADED,
        is_supported=bool(described.facts),
    )
    others = [each for each in names if each.node_id not in similar and _summary(properties)]
    alike = _alike(described.name, others, threshold)
    nodes = await _load_nodes(transaction, scope, [*similar, *alike])
    candidates = []
    for node_id, (name, known_properties) in nodes.items():
        summary = str(known_properties.get(SUMMARY) or "")
        facts = identifying_facts(described.type_name, known_properties, schema)
        comparisons = [
            compare(described, Described(described.type_name, each.name, facts), threshold)
            for each in names
            if each.node_id == node_id
        ]
        best = max(comparisons, key=_likelihood)
        is_label = has_labels(described.type_name, schema)
        if node_id in alike and _say_the_same(properties, known_properties):
            best = Comparison(Verdict.ASK, Relation.NONE, alike[node_id])
        elif (
            is_label
            and node_id in alike
            and _names_no_other(described.name, name)
            and _repeats(properties, known_properties)
        ):
            best = Comparison(Verdict.SAME, Relation.NONE, alike[node_id])
        elif is_label and _corrects(best, described.name, name, properties, known_properties):
            best = best._replace(verdict=Verdict.SAME)
        if best.verdict is not Verdict.DIFFERENT:
            candidates.append(DuplicateCandidate(node_id, name, best, summary))
    return sorted(candidates, key=lambda each: _likelihood(each.comparison), reverse=True)


def _alike(name: str, names: Iterable[KnownName], threshold: float) -> dict[UUID, float]:
    """The scores of the nodes with the most similar names, of those that have no other numbers or months."""
    key = fold_key(normalize_key(name))
    scores: dict[UUID, float] = {}
    for known in names:
        other = fold_key(normalize_key(known.name))
        score = similarity(key, other)
        if score >= threshold and discriminators(key) == discriminators(other):
            scores[known.node_id] = max(score, scores.get(known.node_id, score))
    order = sorted(scores, key=lambda node_id: (scores[node_id], node_id.int), reverse=True)
    return {node_id: scores[node_id] for node_id in order[:_MAX_LOADED]}


def _summary(properties: Json) -> str:
    """The summary without signs and capitals."""
    return normalize_key(str(properties.get(SUMMARY) or ""))


def _say_the_same(properties: Json, known: Json) -> bool:
    """Whether the summaries are equal, and no figure is another."""
    is_other_figure = any(
        isinstance(value, int | float) and known.get(name, value) != value
        for name, value in properties.items()
    )
    return _summary(properties) == _summary(known) and not is_other_figure


def _other_figures(properties: Json, known: Json) -> dict[str, int | float]:
    """The figures of the known node for which other ones are given."""
    return {
        name: known[name]
        for name, value in properties.items()
        if _is_figure(value) and _is_figure(known.get(name)) and known[name] != value
    }


def _is_figure(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _names_no_other(name: str, known_name: str) -> bool:
    """Whether the labels begin alike, and one has all words of the other that may be proper names."""
    own, theirs = ([*_CAPITALIZED.findall(each)] for each in (name, known_name))
    return own[:2] == theirs[:2] and ({*own} <= {*theirs} or {*theirs} <= {*own})


def _repeats(properties: Json, known: Json) -> bool:
    """Whether a text of one has a longer text of the other, word for word, and no figure is another."""
    own, theirs = (
        [normalize_key(value) for value in values.values() if isinstance(value, str)]
        for values in (properties, known)
    )
    return not _other_figures(properties, known) and any(
        len(min(one, other, key=len).split()) >= _MIN_REPEATED_WORDS
        and (one in other or other in one)
        for one in own
        for other in theirs
    )


def _corrects(
    comparison: Comparison, name: str, known_name: str, properties: Json, known: Json
) -> bool:
    """Whether what is written gives other figures of a label, and says which ones they replace."""
    if comparison.relation is not Relation.PART or comparison.contradictions:
        return False
    keys = [fold_key(normalize_key(each)) for each in (name, known_name)]
    figures = _other_figures(properties, known)
    summary = str(properties.get(SUMMARY) or "")
    return (
        bool(figures)
        and discriminators(keys[0]) == discriminators(keys[1])
        and all(
            re.search(rf"(?<![\d.,]){re.escape(f'{each:,}')}(?![\d]|[.,]\d)", summary)
            for each in figures.values()
        )
    )


_ORDER: Final = (Verdict.DIFFERENT, Verdict.ASK, Verdict.SAME)


def _likelihood(comparison: Comparison) -> tuple[int, int, float]:
    return _ORDER.index(comparison.verdict), comparison.relation, comparison.score


def refuse_undecided(name: str, candidates: Sequence[DuplicateCandidate]) -> None:
    """Raises ToolRefusalError, which is a question to the model, if there are candidates."""
    if not candidates:
        return
    listing = ", ".join(each.description for each in candidates)
    ids = ", ".join(f'"{each.node_id}"' for each in candidates)
    is_namesake = any(each.comparison.relation is Relation.EQUAL for each in candidates)
    raise ToolRefusalError(
        f"There is {listing}. Is {quote_name(name)} the same? If so, call again with sameAs: its id; if not, with "
        f"distinctFrom: [{ids}]" + (" and a qualifier." if is_namesake else ".")
    )


async def _load_nodes(
    transaction: Transaction, scope: GraphScope, ids: Sequence[UUID]
) -> dict[UUID, tuple[str, Json]]:
    if not ids:
        return {}
    statement, params = expand_values(_NODES_SQL, "id", ids)
    return {
        row.id: (row.name, row.properties)
        for row in await statement.rows(transaction, {**scope.sql_params, **params})
    }


def read_names(rows: Iterable[Sequence[Any]] | None) -> list[KnownName]:
    """The names in a JSON array of node ids and names."""
    return [KnownName(UUID(node_id), name) for node_id, name in rows or ()]


def neighbour_names_sql(value: str) -> str:
    """SQL for the neighbouring names of a name and their nodes, some more than once.

    `value` formats a column name of the name to look around; it contains `{}`.
    """
    of_type = f"agent_id = {OWNED_AGENT_ID_SQL} and type = {value.format('type')}"
    neighbours = [
        f"(select node_id, name from graph_names where {of_type} and {column} {operator} {value.format(column)}"
        f" order by {column} {order} limit {_NEIGHBOURS_PER_SIDE})"
        for column in ("key", "reversed_key", "sorted_words_key")
        for operator, order in ((">=", "asc"), ("<", "desc"))
    ]
    letters = f"jsonb_array_elements_text({value.format('letters')}) as wanted (initials)"
    initials = (
        f"(select found.node_id, found.name from {letters} cross join lateral ("
        f"select node_id, name from graph_names where {of_type} and key like '% % %'"
        f" and {INITIALS_SQL} >= wanted.initials and {INITIALS_SQL} <= wanted.initials"
        f" order by {INITIALS_SQL} limit {_MAX_OF_INITIALS}) as found)"
    )
    return " union ".join([*neighbours, initials])
