"""What a model reads of conclusions before they are stored: their sentences, and the claims that they cite."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final
from uuid import UUID

from shared.database import ids
from shared.database.statements import (
    BoundQuery,
    CompiledStatement,
    Row,
    json_text,
    uuid_array,
)
from shared.database.transaction import Transaction
from shared.enums import ANALYSIS_TYPE, Entailment, SentenceVerdict
from shared.graph.conclusions.citations import CITATION_SQL, parse_citations, replace_citations
from shared.graph.entity_resolution.redirects import IS_MERGED_AWAY_SQL, MAX_CHAIN_LENGTH
from shared.graph.grounding.sentences import find_sentences
from shared.graph.prompt_format import byte_length, truncate_text
from shared.graph.provenance import readings as claims_in_words
from shared.graph.provenance.claims import KNOWN_DATE_SQL
from shared.graph.scope import IS_OWNED_SQL, OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.validation import normalize_name, one_line
from shared.schemas.base import ReadingResponse
from shared.schemas.provenance import SentenceReading
from shared.tools import Json, ToolRefusalError
from shared.tools.readings import (
    MAX_CLAIMS,
    MAX_REASON_CHARS,
    Findings,
    Material,
    NotRead,
    ReadableClaim,
    ReadableSentence,
    SentenceFinding,
)

NOT_READ: Final = "Not read by a model."
"""The first words of advice that no model has compared with what it cites."""
NOT_WRITTEN_KEY: Final = "notWritten"
"""Key in the result of a refused tool: the title of the conclusion that the reading failed."""
NOT_READ_KEY: Final = "notRead"
"""Key in the result of a tool that stored a conclusion which was not read: why."""
MAX_SENTENCES: Final = 60
"""Of one conclusion. A longer one counts as unread."""
MAX_ATTEMPTS: Final = 2
"""Readings of one conclusion that may fail."""
MAX_FAILURES: Final = 6
"""Readings of one step that may fail. After that, nothing is read or stored."""
_READ_OTHERWISE: Final = "It was refused when this answer was read, and passes now. Change a word and call it again, alone."
_GIVEN_UP: Final = "It failed the comparison with what it cites before, and stays unwritten. Go on without it, or end."
_EVIDENCE_OF_ELEMENT: Final = 40
"""The newest quotes of an element, among which its claims are chosen."""
_STATED_OF_ELEMENT: Final = 8
"""Claims of an element that have a figure of the conclusions."""
_SENTENCES_BESIDE: Final = 3
"""Further quotes of a claim's page that have no value of their own."""
_CLAIMS_OF_ELEMENT: Final = 4
"""Those that have most words of the conclusions."""
_MAX_PASSAGES_BYTES: Final = 5_000
"""Of the quotes in one request, some 1,500 tokens."""
_MAX_ANALYSIS_CHARS: Final = 1_500
_MAX_SHOWN_CHARS: Final = 140

_CITED: Final = CompiledStatement(f"""
with recursive below (top_id, id) as (
  select cited.id, cited.id from unnest(cast(:ids as uuid[])) as cited (id)
  union
  select node.id, cast(match[1] as uuid) from graph_nodes as node,
    regexp_matches(concat_ws(' ', properties ->> 'content', properties ->> 'summary'), :citation, 'gi') as match
  where {IS_OWNED_SQL} and node.id = any(cast(:ids as uuid[])) and node.type = '{ANALYSIS_TYPE}'
), moves (cited_id, id, length) as (
  select below.id, move.kept_id, 1 from below join graph_redirects as move on move.merged_id = below.id
  where agent_id = {OWNED_AGENT_ID_SQL} and {IS_MERGED_AWAY_SQL}
  union all
  select cited_id, move.kept_id, length + 1 from graph_redirects as move, moves
  where agent_id = {OWNED_AGENT_ID_SQL} and move.merged_id = moves.id and {IS_MERGED_AWAY_SQL}
    and length < {MAX_CHAIN_LENGTH}
), reached (top_id, id) as (
  select top_id, coalesce((select moves.id from moves where cited_id = below.id order by length desc limit 1), id)
  from below
), elements as (
  select node.id, node.type, node.name, cast(null as text) as object_name, node.properties, node.id as node_id,
    cast(null as uuid) as edge_id
  from graph_nodes as node where {IS_OWNED_SQL} and node.id in (select id from reached)
  union all
  select edge.id, edge.type, subject.name, object.name, edge.properties, null, edge.id
  from graph_edges as edge
  join graph_nodes as subject on subject.id = edge.source_id
  join graph_nodes as object on object.id = edge.target_id
  where (edge.agent_id = {OWNED_AGENT_ID_SQL}) is true and edge.id in (select id from reached)
)
select reached.top_id, elements.id, elements.type, elements.name, elements.object_name, elements.properties,
  quoted.id as evidence_id, quoted.source_id, quoted.claims, quoted.valid_from, quoted.valid_to, quoted.verdict,
  {KNOWN_DATE_SQL} as said_on,
  page.title, page.published, page.before, page.quote, page.after
from reached join elements on elements.id = reached.id
left join lateral (
  -- The newest evidence of what holds, one piece for each quote.
  select evidence.*, verdict
  from (
    select * from evidence where evidence.node_id = elements.node_id
    union all
    select * from evidence where evidence.edge_id = elements.edge_id
  ) as evidence
  join sources on sources.id = evidence.source_id and retracted_at is null
  left join entailment_verdicts on evidence_id = evidence.id
  where claims = '{{}}' or exists (
    select from jsonb_each(claims) as claim where elements.properties -> claim.key = claim.value)
  order by as_of desc, evidence.id limit {_EVIDENCE_OF_ELEMENT}
) as quoted on true
left join lateral (
  select title, published, {claims_in_words.PASSAGE_SQL} from (
    select title, published, convert_to(text, 'UTF8') as bytes, quoted.first_byte, quoted.end_byte
    from sources where sources.id = quoted.source_id and coalesce(quoted.verdict, '') <> '{Entailment.SUPPORTED}' offset 0
  ) as page
) as page on true
order by reached.top_id, elements.type <> '{ANALYSIS_TYPE}', elements.id, quoted.as_of desc, quoted.source_id,
  quoted.first_byte, quoted.id
""")
_STORE: Final = CompiledStatement("""
insert into conclusion_verdicts
  (conclusion_id, number, agent_id, sentence, kind, verdict, reason, model, prompt_version, call_id, step_id)
select found.conclusion_id, found.number, :of_agent, found.sentence, found.kind, found.verdict, found.reason, :model,
  :prompt_version, :call_id, :of_step
from jsonb_to_recordset(cast(:found as jsonb)) as found (
  conclusion_id uuid, number smallint, sentence text, kind text, verdict text, reason text)
on conflict do nothing
""")


@dataclass(frozen=True)
class Sentence:
    text: str
    """Without citations."""
    cited: tuple[UUID, ...]


@dataclass(frozen=True)
class Draft:
    """A conclusion that a tool is about to store."""

    id: UUID
    title: str
    sentences: tuple[Sentence, ...]

    @property
    def cited(self) -> set[UUID]:
        return {each for sentence in self.sentences for each in sentence.cited}


def draft_of(
    scope: GraphScope, type_name: str, name: str, summary: str, content: str, invalidation: str = ""
) -> Draft:
    """The conclusion with these texts, which cite elements by their ids. Raises ToolRefusalError like `normalize_name`."""
    title = normalize_name(name)
    properties = {
        "summary": one_line(summary),
        "content": content.strip(),
        "invalidation": one_line(invalidation),
    }
    sentences = tuple(sentences_of(title, properties))
    return Draft(ids.node_id(scope.agent_id, type_name, title), title, sentences)


def split_sentences(text: str) -> list[Sentence]:
    """The sentences of a text in Markdown. A citation that stands alone belongs to the sentence before it."""
    sentences: list[Sentence] = []
    for line in text.splitlines():
        for start, end in find_sentences(line):
            cited = tuple(parse_citations(line[start:end]).ids())
            plain = _without_citations(line[start:end])
            if any(character.isalnum() for character in plain):
                sentences.append(Sentence(plain, cited))
            elif cited and sentences:
                last = sentences[-1]
                sentences[-1] = replace(last, cited=tuple(dict.fromkeys((*last.cited, *cited))))
    return sentences


_BLANK_BEFORE_SIGN: Final = re.compile(r" ([.,;:!?])")


def _without_citations(text: str) -> str:
    """The text on one line."""
    plain = " ".join(replace_citations(text, lambda _: "").split())
    return _BLANK_BEFORE_SIGN.sub(r"\1", plain)


@dataclass
class ConclusionReadings:
    """The conclusions of one answer: first collected, then held against what a model has found in them.

    Without `use`, nothing counts as read.
    """

    scope: GraphScope
    _collected: dict[UUID, Draft] | None = None
    """While the rules are tried; None while the tools store."""
    _found: Findings | NotRead | None = field(default_factory=partial(NotRead, ""))
    _earlier: Sequence[str] = ()
    """Titles of the conclusions that failed in earlier answers of the step."""
    _stored: set[UUID] = field(default_factory=set)
    _unread: dict[UUID, str] = field(default_factory=dict)
    """Why conclusions that were checked count as unread."""

    def begin(self, earlier: Sequence[Json]) -> None:
        self._found = None
        self._stored = set()
        self._earlier = [each[NOT_WRITTEN_KEY] for each in earlier if NOT_WRITTEN_KEY in each]

    def collect(self) -> None:
        self._collected = {}

    async def load_material(self, transaction: Transaction) -> Material | None:
        drafts, self._collected = self._collected, None
        if not drafts:
            return None
        cited = dict.fromkeys(
            each
            for draft in drafts.values()
            for sentence in draft.sentences
            for each in sentence.cited
        )
        params = {**self.scope.sql_params, "ids": uuid_array(cited), "citation": CITATION_SQL}
        rows = await _CITED.rows(transaction, params)
        return material_of(list(drafts.values()), list(cited), rows)

    def use(self, found: Findings | NotRead | None) -> None:
        self._found = found

    def check(self, draft: Draft) -> str:
        """Why the conclusion, which the rules have passed, counts as unread; empty if each of its sentences was read.

        Raises ToolRefusalError if one of them fails.
        """
        if self._earlier.count(draft.title) >= MAX_ATTEMPTS or len(self._earlier) >= MAX_FAILURES:
            raise ToolRefusalError(_GIVEN_UP)
        self._unread[draft.id] = why_unread = self._check(draft)
        return why_unread

    def _check(self, draft: Draft) -> str:
        if self._collected is not None:
            return ""
        if isinstance(self._found, NotRead):
            return self._found.why
        findings = self._findings_on(draft)
        if findings is None:
            raise ToolRefusalError(_READ_OTHERWISE)
        failing = [
            (sentence, found)
            for sentence, found in zip(draft.sentences, findings, strict=False)
            if found is not None and found.is_failing
        ]
        if failing:
            raise ToolRefusalError(
                _refusal(failing, is_again=draft.title in self._earlier),
                details={NOT_WRITTEN_KEY: draft.title},
            )
        is_complete = len(findings) == len(draft.sentences) and None not in findings
        return "" if is_complete else "the model gave no verdict on a sentence"

    def add(self, draft: Draft) -> str:
        """Remembers that the conclusion, which was checked, is about to be written; returns what `check` said."""
        if self._collected is not None:
            self._collected[draft.id] = draft
        else:
            self._stored.add(draft.id)
        return self._unread.pop(draft.id, "")

    def storing(self) -> Sequence[BoundQuery[None]]:
        found = self._found
        if not isinstance(found, Findings):
            return ()
        queries = [claims_in_words.store_verdicts(self.scope, found)] if found.claims else []
        rows = [
            {
                "conclusion_id": sentence.conclusion_id,
                "number": sentence.number,
                "sentence": sentence.text,
                "kind": each.kind,
                "verdict": each.verdict,
                "reason": each.reason[:MAX_REASON_CHARS],
            }
            for place, sentence in enumerate(found.material.sentences)
            if sentence.conclusion_id in self._stored
            and (each := found.sentences.get(place)) is not None
        ]
        if rows:
            params = {
                "of_agent": self.scope.agent_id,
                "of_step": self.scope.step_id,
                "found": json_text(rows),
                "model": found.model,
                "prompt_version": found.prompt_version,
                "call_id": found.call_id,
            }
            queries.append(BoundQuery(_STORE, params, lambda _: None))
        return queries

    def _findings_on(self, draft: Draft) -> list[SentenceFinding | None] | None:
        """For each sentence that was read; None if the conclusion was not, or had other words."""
        if not isinstance(self._found, Findings):
            return None
        places = [
            (place, sentence.text)
            for place, sentence in enumerate(self._found.material.sentences)
            if sentence.conclusion_id == draft.id
        ]
        texts = [sentence.text for sentence in draft.sentences[:MAX_SENTENCES]]
        if [text for _, text in places] != texts:
            return None
        return [self._found.sentences.get(place) for place, _ in places]


def _refusal(failing: Sequence[tuple[Sentence, SentenceFinding]], *, is_again: bool) -> str:
    reasons = "; ".join(
        f"“{truncate_text(sentence.text, _MAX_SHOWN_CHARS)}”: {found.verdict.replace('_', ' ')}"
        + (f" ({found.reason})" if found.reason else "")
        for sentence, found in failing
    )
    advice = (
        "It stays unwritten: go on without it."
        if is_again
        else "Correct it by what the cited claims say and call again under the same name, once, or leave it out."
    )
    return f"A reader compared it with what it cites. {reasons}. {advice}"


def left_out(scope: GraphScope, type_name: str, results: Iterable[Json]) -> list[str]:
    """Titles of the conclusions that failed the reading and were not stored, by all results of a step's tools."""
    all_results = list(results)
    stored = {each.get("nodeId") for each in all_results}
    titles = dict.fromkeys(each[NOT_WRITTEN_KEY] for each in all_results if NOT_WRITTEN_KEY in each)
    return [
        title
        for title in titles
        if str(ids.node_id(scope.agent_id, type_name, title)) not in stored
    ]


def outcome(scope: GraphScope, type_name: str, results: Iterable[Json]) -> Json:
    """What a step's result says of its readings: conclusions that were left out, and those that are not read."""
    all_results = list(results)
    titles = left_out(scope, type_name, all_results)
    unread = [each[NOT_READ_KEY] for each in all_results if each.get(NOT_READ_KEY)]
    result: Json = {"left_out": titles} if titles else {}
    return result | ({"not_read": {"count": len(unread), "why": unread[0]}} if unread else {})


def material_of(drafts: Sequence[Draft], cited: Sequence[UUID], rows: Iterable[Row]) -> Material:
    """The sentences of the drafts, and the claims of what they cite, in the order of the citations."""
    by_top: dict[UUID, list[Row]] = {}
    for row in rows:
        by_top.setdefault(row.top_id, []).append(row)
    claims = _Claims(" ".join(each.text for draft in drafts for each in draft.sentences))
    numbers = {each: claims.add(by_top.get(each, ())) for each in cited}
    sentences: list[ReadableSentence] = []
    for draft in drafts:
        everything = sorted({number for each in draft.cited for number in numbers[each]})
        for number, sentence in enumerate(draft.sentences[:MAX_SENTENCES], 1):
            own = sorted({each for key in sentence.cited for each in numbers[key]})
            # Of one conclusion alone, all claims are meant.
            shared = () if len(drafts) == 1 else everything
            sentences.append(
                ReadableSentence(draft.id, number, sentence.text, tuple(own or shared))
            )
    return Material(claims.listed, sentences)


_WORD: Final = re.compile(r"\w+")
_FIGURE: Final = re.compile(r"\d+(?:[.,]\d+)*")


def _figures(text: str) -> frozenset[str]:
    """The figures of a text, however their thousands and decimals are marked, without single digits."""
    digits = (each.replace(",", "").replace(".", "") for each in _FIGURE.findall(text))
    return frozenset(each for each in digits if len(each) > 1)


def _words(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in _WORD.findall(text))


class _Claims:
    """Numbers claims, each once."""

    def __init__(self, text: str) -> None:
        """`text` is that of the conclusions."""
        self._words = _words(text)
        self._figures = _figures(text)
        self.listed: list[ReadableClaim] = []
        self._by_element: dict[UUID, tuple[int, ...]] = {}
        self._left_bytes = _MAX_PASSAGES_BYTES
        self._left_passages = MAX_CLAIMS

    def add(self, rows: Sequence[Row]) -> tuple[int, ...]:
        """The numbers of the claims of what was cited by one id."""
        by_element: dict[UUID, list[Row]] = {}
        for row in rows:
            by_element.setdefault(row.id, []).append(row)
        numbers: list[int] = []
        for element_id, of_element in by_element.items():
            if element_id not in self._by_element:
                first = len(self.listed) + 1
                self.listed += self._claims_of(of_element)
                self._by_element[element_id] = tuple(range(first, len(self.listed) + 1))
            numbers += self._by_element[element_id]
        return tuple(numbers)

    def _claims_of(self, rows: Sequence[Row]) -> list[ReadableClaim]:
        row = rows[0]
        if row.type == ANALYSIS_TYPE:
            return [ReadableClaim(_analysis_text(row.name, row.properties))]
        standing = [
            each
            for each in rows
            if each.evidence_id is not None and each.verdict != Entailment.CONTRADICTED
        ]
        if not standing:
            if all(each.evidence_id is None for each in rows):
                return [claims_in_words.readable([row])]  # An edge of an analysis.
            claim = claims_in_words.readable([row])
            return [replace(claim, text=f"{claim.text}: no page says so", has_failed=True)]
        with_values = [row for row in standing if row.claims]
        nearest = sorted(with_values, key=lambda row: -self._shared(row))
        stated = [row for row in nearest if self._shared_figures(row)]
        others = [row for row in nearest if row not in stated]
        room = max(_CLAIMS_OF_ELEMENT - len(stated), 0)
        chosen = [*stated[:_STATED_OF_ELEMENT], *others[:room]] or standing[:1]
        # Quotes are loaded of what is not known to be supported.
        groups = [
            group
            for is_read in (True, False)
            for group in claims_in_words.grouped(
                row for row in chosen if (row.verdict == Entailment.SUPPORTED) is is_read
            )
        ]
        # In the order of the page.
        return [
            self._claim(sorted([*group, *_beside(group, standing)], key=standing.index))
            for group in groups
        ]

    def _shared(self, row: Row) -> int:
        """How many words of the conclusions the values of a claim have."""
        return len(_words(str(row.claims)) & self._words)

    def _shared_figures(self, row: Row) -> bool:
        """Whether a value has a figure that the conclusions state."""
        values = " ".join(str(value) for name, value in row.claims.items() if name != "summary")
        return not self._figures.isdisjoint(_figures(values))

    def _claim(self, group: Sequence[Row]) -> ReadableClaim:
        passage = ""
        # The quotes of a claim with a value that is not stated can still say what a sentence says.
        if group[0].verdict != Entailment.SUPPORTED and self._left_passages:
            passage = claims_in_words.passage_of(group)
            if byte_length(passage) > self._left_bytes:
                passage = ""
        if passage:
            self._left_bytes -= byte_length(passage)
            self._left_passages -= 1
        return claims_in_words.readable(group, passage)


def _beside(group: Sequence[Row], rows: Sequence[Row]) -> list[Row]:
    """Further sentences of the page of a claim that is to be read, which were cited and have no value of their own."""
    page = group[0].source_id
    if group[0].verdict == Entailment.SUPPORTED:
        return []
    return [
        row
        for row in rows
        if row.source_id == page
        and not row.claims
        and row.verdict != Entailment.SUPPORTED
        and row not in group
    ][:_SENTENCES_BESIDE]


def _analysis_text(name: str, properties: Mapping[str, Any]) -> str:
    texts = [str(properties.get(key, "")) for key in ("summary", "content")]
    words = _without_citations(" ".join(texts))
    return f'Analysis "{name}": {truncate_text(words, _MAX_ANALYSIS_CHARS)}'


_VERDICTS: Final = CompiledStatement(f"""
select conclusion_id, number, sentence, kind, verdict, reason, model, call_id, created_at from conclusion_verdicts
where conclusion_id = any(cast(:ids as uuid[])) and {IS_OWNED_SQL}
order by conclusion_id, number
""")


async def load_verdicts(
    transaction: Transaction, scope: GraphScope, conclusions: Iterable[tuple[UUID, str, Json]]
) -> dict[UUID, list[SentenceReading]]:
    """The verdicts on the sentences of conclusions, of which id, name and properties are given, in order.

    Verdicts on words that a conclusion does not have are left out, and so are conclusions without any.
    """
    texts = {
        conclusion_id: [sentence.text for sentence in sentences_of(name, properties)]
        for conclusion_id, name, properties in conclusions
    }
    if not texts:
        return {}
    params = {**scope.sql_params, "ids": uuid_array(texts)}
    found: dict[UUID, list[SentenceReading]] = {}
    for row in await _VERDICTS.rows(transaction, params):
        if row.sentence in texts[row.conclusion_id][row.number - 1 : row.number]:
            found.setdefault(row.conclusion_id, []).append(SentenceReading.model_validate(row))
    return found


def sentences_of(name: str, properties: Mapping[str, Any]) -> list[Sentence]:
    """Those of a stored conclusion, each once, as they were numbered when it was read."""
    texts = (properties.get(key) for key in ("summary", "content", "invalidation"))
    found: dict[str, Sentence] = {name: Sentence(name, ())}
    for text in texts:
        for each in split_sentences(text) if isinstance(text, str) else ():
            known = found.setdefault(each.text, each)
            cited = tuple(dict.fromkeys((*known.cited, *each.cited)))
            found[each.text] = replace(known, cited=cited)
    return [*found.values()]


def summarize(
    name: str, properties: Mapping[str, Any], verdicts: Sequence[SentenceReading]
) -> ReadingResponse | None:
    """How much of a conclusion was read; None if nothing was."""
    if not verdicts:
        return None
    counts = Counter[str](each.verdict for each in verdicts)
    return ReadingResponse(
        sentences=len(sentences_of(name, properties)),
        supported=counts[SentenceVerdict.SUPPORTED] + counts[SentenceVerdict.FOLLOWS],
        plausible=counts[SentenceVerdict.PLAUSIBLE],
        model=verdicts[0].model,
    )
