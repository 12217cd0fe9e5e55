"""What a model reads of conclusions before they are stored: their sentences, and the claims that they cite."""

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID, uuid5

from shared.database import ids
from shared.database.statements import (
    BoundQuery,
    CompiledStatement,
    Row,
    json_text,
    uuid_array,
)
from shared.database.transaction import Transaction
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, Entailment, SentenceVerdict
from shared.graph.conclusions import position_store, positions
from shared.graph.conclusions.citations import CITATION_SQL
from shared.graph.conclusions.sentences import (
    ACTION,
    REVIEW,
    SUBJECT,
    TITLE,
    Sentence,
    plain_line,
    sentences_of,
    split_sentences,
)
from shared.graph.entity_resolution.redirects import IS_MERGED_AWAY_SQL, MAX_CHAIN_LENGTH
from shared.graph.prompt_format import quote_name, truncate_text
from shared.graph.provenance import integrity
from shared.graph.provenance import readings as claims_in_words
from shared.graph.provenance.beside import beside_sql, stated_beside
from shared.graph.provenance.claims import KNOWN_DATE_SQL
from shared.graph.provenance.elsewhere import elsewhere_query, figures_in
from shared.graph.provenance.verdicts import READ_VALUES_SQL
from shared.graph.scope import IS_OWNED_SQL, OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.validation import normalize_name, one_line
from shared.schemas.base import ReadingResponse
from shared.schemas.provenance import SentenceReading
from shared.tools import Json, ToolRefusalError
from shared.tools.readings import (
    EXISTS,
    MAX_REASON_CHARS,
    Findings,
    Material,
    NotRead,
    ReadableClaim,
    ReadableSentence,
    SentenceFinding,
)
from shared.workflow.agent_clock import NOW_SQL, AgentClock, agent_clock

NOT_READ: Final = "Not read by a model."
"""The first words of advice that no model has compared with what it cites."""
NOT_WRITTEN_KEY: Final = "notWritten"
"""Key in the result of a refused tool: the title of the conclusion that the reading failed."""
NOT_REVIEWED_KEY: Final = "notReviewed"
"""Key in the result of a refused tool: the title of the advice whose review has a reason that the reading failed."""
CLAIMS_KEY: Final = "claims"
"""Key in the result of a refused tool: the claims that the failing sentences cite."""
NOT_READ_KEY: Final = "notRead"
"""Key in the result of a tool that stored a conclusion which was not read: why."""
MAX_SENTENCES: Final = 40
"""Sentences of one conclusion, with its title and what would prove it wrong."""
MAX_SENTENCE_CHARS: Final = 800
MAX_CITED_BY_SENTENCE: Final = 12
MAX_CITED: Final = 40
"""Nodes and edges that one conclusion cites."""
MAX_ATTEMPTS: Final = 2
"""Readings of one conclusion that may fail."""
MAX_FAILURES: Final = 6
"""Readings of one step that may fail. After that, nothing is read or stored."""
_READ_OTHERWISE: Final = "It was refused when this answer was read, and passes now. Change a word and call it again, alone."
_GIVEN_UP: Final = "It failed the comparison with what it cites before, and stays unwritten. Go on without it, or end."
_TOO_MANY_FAILED: Final = (
    f"{MAX_FAILURES} comparisons of this task have failed: nothing more is read or stored. End."
)
_EVIDENCE_OF_ELEMENT: Final = 40
"""The newest quotes of an element, among which its claims are chosen."""
_STATED_OF_ELEMENT: Final = 8
"""Pages of an element that say a figure of the conclusions."""
_PAGES_OF_ELEMENT: Final = 2
"""Pages of an element that share most words with the conclusions."""
_PAGES_BELOW: Final = 1
"""Pages of an element that only an analysis cites, besides those with a figure of the conclusions."""
_ROWS_OF_PAGE: Final = 6
"""Quotes of a page with values, besides those with a figure of the conclusions."""
_STATED_OF_PAGE: Final = 8
_MORE_OF_TEXT: Final = 8
"""Further quotes of a text whose other quotes are read."""
_MAX_SHORT_CHARS: Final = 3
_SENTENCES_BESIDE: Final = 3
"""Further quotes of a claim's page that have no value of their own."""
_MAX_ANALYSIS_CHARS: Final = 1_500
_MAX_SHOWN_CHARS: Final = 140
_MAX_STANDING_CHARS: Final = 300
_MAX_LISTED: Final = 10
_UNREAD: Final = "not read"

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
  quoted.id as evidence_id, quoted.source_id, quoted.read_claims as claims, quoted.valid_from, quoted.valid_to,
  quoted.verdict, quoted.speaker, {KNOWN_DATE_SQL} as said_on,
  page.title, page.published, page.url, page.before, page.quote, page.after,
  coalesce(of_node.stated, of_edge.stated) as stated
from reached join elements on elements.id = reached.id
cross join lateral {beside_sql("node_id", "elements", "elements.properties")} as of_node
cross join lateral {beside_sql("edge_id", "elements", "elements.properties")} as of_edge
left join lateral (
  -- The newest evidence of what holds or is upcoming, or may be true although its quote does not state it: one row for each
  -- quote and verdict.
  select evidence.*, verdict, read_claims
  from (
    select evidence.*
    from (
      select * from evidence where evidence.node_id = elements.node_id
      union all
      select * from evidence where evidence.edge_id = elements.edge_id
    ) as evidence
    join sources on sources.id = evidence.source_id and retracted_at is null
    where claims = '{{}}' or valid_from > {NOW_SQL} or exists (
      select from jsonb_each(claims) as claim where elements.properties -> claim.key = claim.value)
      or exists (select from ({READ_VALUES_SQL}) as read where verdict = '{Entailment.NOT_STATED}')
    order by as_of desc, evidence.id limit {_EVIDENCE_OF_ELEMENT}
  ) as evidence
  cross join lateral (
    select verdict, coalesce(jsonb_object_agg(name, value) filter (where name <> '{EXISTS}'), '{{}}') as read_claims
    from (
      select key as name, value from jsonb_each(evidence.claims)
      union all
      select '{EXISTS}', null where evidence.claims = '{{}}' or evidence.edge_id is not null
    ) as stated left join ({READ_VALUES_SQL}) as read using (name)
    group by verdict
  ) as part
) as quoted on true
left join lateral (
  select title, published, url, {claims_in_words.PASSAGE_SQL} from (
    select title, published, url, convert_to(text, 'UTF8') as bytes, quoted.first_byte, quoted.end_byte
    from sources where sources.id = quoted.source_id offset 0
  ) as page
) as page on true
order by reached.top_id, elements.type <> '{ANALYSIS_TYPE}', elements.id, quoted.as_of desc, quoted.source_id,
  quoted.first_byte, quoted.id, quoted.verdict
""")
_STORE: Final = CompiledStatement("""
insert into conclusion_verdicts
  (conclusion_id, number, agent_id, sentence, kind, verdict, reason, model, prompt_version, call_id, step_id)
select found.conclusion_id, found.number, :of_agent, found.sentence, found.kind, found.verdict, found.reason, found.model,
  :prompt_version, found.call_id, :of_step
from jsonb_to_recordset(cast(:found as jsonb)) as found (
  conclusion_id uuid, number smallint, sentence text, kind text, verdict text, reason text, model text, call_id uuid)
on conflict do nothing
""")


@dataclass(frozen=True)
class Draft:
    """A conclusion that a tool is about to store."""

    id: UUID
    title: str
    sentences: tuple[Sentence, ...]
    is_conclusion: bool = True
    """False: it is the reason of a review, and its verdicts are not stored."""

    @property
    def cited(self) -> set[UUID]:
        return {each for sentence in self.sentences for each in sentence.cited}


def draft_of(scope: GraphScope, type_name: str, name: str, **texts: str | None) -> Draft:
    """The conclusion with these texts, by property, which cite elements by their ids. Raises ToolRefusalError like
    `normalize_name`.
    """
    title = normalize_name(name)
    # Line breaks of the content separate sentences.
    properties = {
        key: text.strip() if key == "content" else one_line(text)
        for key, text in texts.items()
        if text
    }
    sentences = tuple(sentences_of(title, properties))
    return Draft(ids.node_id(scope.agent_id, type_name, title), title, sentences)


def draft_about(draft: Draft, names: Sequence[str]) -> Draft:
    """The advice with a sentence that says what it is about: the owner is shown the names of its subject."""
    if not names:
        return draft
    about = f"It is about {', '.join(map(quote_name, names))}."
    sentence = Sentence(about, tuple(sorted(draft.cited)), SUBJECT)
    return replace(draft, sentences=(*draft.sentences, sentence))


def draft_of_review(
    advice_id: UUID, title: str, because: str, advice_cites: Sequence[UUID], decision: str
) -> Draft:
    """The reason of a review of advice, held against what it cites and the advice; without citations, what that cites.

    `decision` says what the review does to the advice: a reason can be true and be none for it.
    """
    reasons = split_sentences(because)
    cited = dict.fromkeys(each for reason in reasons for each in reason.cited or advice_cites)
    sentences = tuple(
        replace(each, cited=(*(each.cited or advice_cites), advice_id))
        for each in [*reasons, Sentence(decision, tuple(cited), REVIEW)]
    )
    return Draft(uuid5(advice_id, "review"), title, sentences, is_conclusion=False)


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
        keys = (NOT_WRITTEN_KEY, NOT_REVIEWED_KEY)
        self._earlier = [each[key] for each in earlier for key in keys if key in each]

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
        clock = await agent_clock(self.scope.agent_id).execute(transaction)
        elsewhere: Mapping[UUID, Sequence[str]] = {}
        if stated := _stated_figures(rows, drafts.values()):
            query = elsewhere_query(self.scope, stated, {row.id for row in rows})
            elsewhere = await query.execute(transaction)
        material = material_of(list(drafts.values()), list(cited), rows, elsewhere)
        standing = await self._standing(transaction, drafts, clock) if _has_advice(drafts) else ()
        return replace(material, now=clock.now, standing=standing)

    async def _standing(
        self, transaction: Transaction, drafts: Container[UUID], clock: AgentClock
    ) -> Sequence[str]:
        """The advice that stands beside the drafts, without what they replace: the tools have been tried."""
        query = position_store.positions_query(self.scope.owner_id, [self.scope.agent_id])
        others = [each for each in await query.execute(transaction) if each.id not in drafts]
        return [
            f"{each.action} on {', '.join(map(quote_name, each.subject.values()))}:"
            f" {truncate_text(f'{each.title}. {each.summary}', _MAX_STANDING_CHARS)}"
            for each in positions.standing(others, clock.today)
        ]

    def use(self, found: Findings | NotRead | None) -> None:
        self._found = found

    def check(self, draft: Draft) -> str:
        """Why the conclusion, which the rules have passed, counts as unread; empty if each of its sentences was read.

        Raises ToolRefusalError if one of them fails.
        """
        if self._earlier.count(draft.title) >= MAX_ATTEMPTS:
            raise ToolRefusalError(_GIVEN_UP)
        if len(self._earlier) >= MAX_FAILURES:
            raise ToolRefusalError(_TOO_MANY_FAILED)
        if reason := _too_large(draft):
            raise ToolRefusalError(reason)
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
            for sentence, found in zip(draft.sentences, findings, strict=True)
            if found is not None and found.is_failing
        ]
        if failing:
            key = NOT_WRITTEN_KEY if draft.is_conclusion else NOT_REVIEWED_KEY
            details: Json = {key: draft.title}
            if claims := self._claims_of({sentence.text for sentence, _ in failing}, draft):
                details[CLAIMS_KEY] = claims
            refusal = _refusal(failing, is_again=draft.title in self._earlier)
            raise ToolRefusalError(refusal, details=details)
        if None not in findings:
            return ""
        why_unread = self._found.why_unread if isinstance(self._found, Findings) else ""
        return why_unread or "the model gave no verdict on a sentence"

    def _claims_of(self, texts: Container[str], draft: Draft) -> list[str]:
        """The claims, as they were read, that sentences with these texts cite. A resumed run has no texts of claims."""
        assert isinstance(self._found, Findings)
        material = self._found.material
        numbers = {
            number
            for sentence in material.sentences
            if sentence.conclusion_id == draft.id and sentence.text in texts
            for number in sentence.claims
        }
        return [
            " | ".join(filter(None, [claim.text, claim.page, claim.passage]))
            for number, claim in enumerate(material.claims, 1)
            if number in numbers and claim.text
        ]

    def add(self, draft: Draft) -> str:
        """Remembers that the conclusion, which was checked, is about to be written; returns what `check` said."""
        if self._collected is not None:
            self._collected[draft.id] = draft
        elif draft.is_conclusion:
            self._stored.add(draft.id)
        return self._unread.pop(draft.id, "")

    def check_review(self, draft: Draft) -> bool:
        """Whether a model has read the reason of a review, or is about to. Raises ToolRefusalError if it fails."""
        self.check(draft)
        is_reading = self._collected is not None or isinstance(self._found, Findings)
        return not self.add(draft) and is_reading

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
                **found.reader_of(each)._asdict(),
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
                "prompt_version": found.prompt_version,
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
        texts = [sentence.text for sentence in draft.sentences]
        if [text for _, text in places] != texts:
            return None
        return [self._found.sentences.get(place) for place, _ in places]


def _has_advice(drafts: Mapping[UUID, Draft]) -> bool:
    return any(each.role == ACTION for draft in drafts.values() for each in draft.sentences)


def _too_large(draft: Draft) -> str:
    """Why a reader could not compare every sentence with all that it cites; empty if it can."""
    if (count := len(draft.sentences)) > MAX_SENTENCES:
        return f"It has {count} sentences. Write at most {MAX_SENTENCES}, and each thing once."
    if (count := len(draft.cited)) > MAX_CITED:
        return f"It cites {count} nodes and edges. Cite at most {MAX_CITED}: those that its sentences need."
    for sentence in draft.sentences:
        shown = truncate_text(sentence.text, _MAX_SHOWN_CHARS)
        if (count := len(sentence.cited)) > MAX_CITED_BY_SENTENCE:
            return (
                f"“{shown}” cites {count} nodes and edges."
                f" Cite at most {MAX_CITED_BY_SENTENCE} in a sentence, or divide it."
            )
        if (count := len(sentence.text)) > MAX_SENTENCE_CHARS:
            return f"“{shown}” has {count} characters. Divide it into sentences of at most {MAX_SENTENCE_CHARS}."
    return ""


def _refusal(failing: Sequence[tuple[Sentence, SentenceFinding]], *, is_again: bool) -> str:
    reasons = "; ".join(
        f"“{truncate_text(sentence.text, _MAX_SHOWN_CHARS)}”: {found.verdict.replace('_', ' ')}"
        + (f" ({found.reason})" if found.reason else "")
        for sentence, found in failing
    )
    advice = (
        "It stays unwritten: go on without it."
        if is_again
        else f"Correct it by what the cited claims say and call again{_with_title(failing)}, or leave it out."
    )
    return f"A reader compared it with what it cites. {reasons}. {advice}"


def _with_title(failing: Sequence[tuple[Sentence, SentenceFinding]]) -> str:
    has_title = any(sentence.role == TITLE for sentence, _ in failing)
    return " with another title" if has_title else ", once"


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


def _stated_figures(
    rows: Sequence[Row], drafts: Iterable[Draft]
) -> dict[UUID, tuple[str, set[str]]]:
    """The cited nodes of whose values the drafts state a figure, each with its type and these figures.

    A figure in a name, such as that of a version, is no value.
    """
    stated = figures_in(" ".join(each.text for draft in drafts for each in draft.sentences))
    stated -= figures_in(" ".join(f"{row.name} {row.object_name or ''}" for row in rows))
    found: dict[UUID, tuple[str, set[str]]] = {}
    for row in rows if stated else ():
        if row.type in _TEXT_OF_TYPE or row.object_name is not None:
            continue
        if figures := figures_in(" ".join(map(str, (row.claims or {}).values()))) & stated:
            found.setdefault(row.id, (row.type, set()))[1].update(figures)
    return found


def material_of(
    drafts: Sequence[Draft],
    cited: Sequence[UUID],
    rows: Iterable[Row],
    elsewhere: Mapping[UUID, Sequence[str]] = MappingProxyType({}),
) -> Material:
    """The sentences of the drafts, and the claims of what they cite, in the order of the citations, with what is said
    `elsewhere`, by node.
    """
    by_top: dict[UUID, list[Row]] = {}
    for row in rows:
        by_top.setdefault(row.top_id, []).append(row)
    texts: dict[UUID, list[str]] = {each: [] for each in cited}
    for draft in drafts:
        for sentence in draft.sentences:
            # What cites nothing rests on all that its conclusion cites.
            for key in sentence.cited or draft.cited:
                texts.setdefault(key, []).append(sentence.text)
    claims = _Claims(elsewhere)
    # What is cited itself has more claims than what analyses cite.
    direct_first = sorted(cited, key=lambda each: _has_analysis(by_top.get(each, ())))
    numbers = {
        each: claims.add(by_top.get(each, ()), " ".join(texts[each])) for each in direct_first
    }
    sentences = [
        ReadableSentence(
            draft.id,
            number,
            sentence.text,
            tuple(sorted({each for key in sentence.cited for each in numbers[key]})),
            sentence.role,
            claims.basis_of(sentence.cited or draft.cited),
        )
        for draft in drafts
        for number, sentence in enumerate(draft.sentences, 1)
    ]
    return Material(claims.listed, sentences, shown=claims.shown)


def _has_analysis(rows: Sequence[Row]) -> bool:
    return any(row.type == ANALYSIS_TYPE for row in rows)


_WORD: Final = re.compile(r"\w+")
_UNITS: Final = (
    r"\s?%|[ \u00a0-](?:per|million|billion|points?|times|years?|months?|weeks?|days?)\b"
)
_FIGURE: Final = re.compile(rf"(?P<number>\d+(?:[.,]\d+)*)(?P<unit>{_UNITS})?")


def _figures(text: str) -> frozenset[str]:
    """The figures of a text, however their thousands and decimals are marked; single digits only with a unit."""
    found = set[str]()
    for each in _FIGURE.finditer(text):
        digits = each["number"].replace(",", "").replace(".", "")
        if len(digits) > 1 or each["unit"]:
            found.add(digits)
    return frozenset(found)


def _words(text: str) -> frozenset[str]:
    """The words by which texts are compared: no short ones without a digit."""
    words = (word.casefold() for word in _WORD.findall(text))
    return frozenset(word for word in words if len(word) > _MAX_SHORT_CHARS or not word.isalpha())


class _Claims:
    """Numbers claims, each once."""

    def __init__(self, elsewhere: Mapping[UUID, Sequence[str]]) -> None:
        self._elsewhere = elsewhere
        self._shown_elsewhere: set[str] = set()
        self._words = frozenset[str]()
        self._figures = self._stated = frozenset[str]()
        """Those of the sentences that cite what is added; with what the analysis that they cite computes them from."""
        self.listed: list[ReadableClaim] = []
        self._shown: dict[UUID, set[str]] = {}
        """By element, the quotes (as ids of evidence) and the other texts that its claims show."""
        self._by_element: dict[UUID, tuple[int, ...]] = {}
        self._elements: dict[UUID, Sequence[UUID]] = {}
        """By what was cited: it, or what it was merged into, and what it cites if it is an analysis."""

    def add(self, rows: Sequence[Row], text: str) -> tuple[int, ...]:
        """The numbers of the claims of what was cited by one id, by sentences with this text."""
        self._words, self._figures = _words(text), _figures(text)
        by_element: dict[UUID, list[Row]] = {}
        for row in rows:
            by_element.setdefault(row.id, []).append(row)
        numbers: list[int] = []
        self._stated = self._figures | self._operands(rows)
        room = _PAGES_BELOW if _has_analysis(rows) else _PAGES_OF_ELEMENT
        for element_id, of_element in by_element.items():
            if element_id not in self._by_element:
                first = len(self.listed) + 1
                self.listed += self._claims_of(of_element, room)
                self._by_element[element_id] = tuple(range(first, len(self.listed) + 1))
            numbers += self._by_element[element_id]
        for row in rows[:1]:
            self._elements[row.top_id] = [*by_element]
        return tuple(numbers)

    @property
    def shown(self) -> frozenset[str]:
        """The quotes and other texts of all claims, each with its element."""
        return frozenset(
            f"{element_id} {text}" for element_id, texts in self._shown.items() for text in texts
        )

    def basis_of(self, cited: Iterable[UUID]) -> str:
        """A digest of what the claims of the cited elements show. Only a verdict that contradicts a claim changes it."""
        shown = sorted(
            f"{element_id} {text}"
            for key in cited
            for element_id in self._elements.get(key, ())
            for text in self._shown[element_id]
        )
        return integrity.sha256("\n".join(shown)).hex()

    def _remember(self, element_id: UUID, rows: Sequence[Row], text: str = "") -> None:
        shown = self._shown.setdefault(element_id, set())
        for row in rows:
            mark = " contradicted" if row.verdict == Entailment.CONTRADICTED else ""
            shown.add(f"{row.evidence_id}{mark}")
            shown.update(
                f"{row.evidence_id} {name} {row.claims[name]}{mark}" for name in row.claims
            )
        shown.add(text)

    def _claims_of(self, rows: Sequence[Row], room: int) -> list[ReadableClaim]:
        """Selects the pages with figures of the conclusions, and those with most of their words, up to `room`."""
        row = rows[0]
        self._remember(row.id, ())
        if row.type in _TEXT_OF_TYPE:
            text = _conclusion_text(row.type, row.name, row.properties)
            self._remember(row.id, (), text)
            return [ReadableClaim(text)]
        if row.evidence_id is None:
            claim = claims_in_words.as_it_is(row)  # An edge of an analysis.
            self._remember(row.id, (), claim.text)
            return [claim]
        standing = [each for each in rows if each.verdict != Entailment.CONTRADICTED]
        if not standing:
            self._remember(row.id, rows[:_ROWS_OF_PAGE])
            return [claims_in_words.readable_again(rows[:_ROWS_OF_PAGE], Entailment.CONTRADICTED)]
        # What one page says of the element is read together.
        pages = claims_in_words.grouped(row for row in standing if row.claims)
        nearest = sorted(pages, key=lambda page: -max(map(self._shared, page)))
        stated = [page for page in nearest if any(map(self._shared_figures, page))]
        others = [page for page in nearest if page not in stated]
        chosen = [*stated[:_STATED_OF_ELEMENT], *others[: max(room - len(stated), 0)]]
        unread = [each for each in standing if each.verdict is None]
        shared = claims_in_words.shared_texts(unread).get(row.id, {})
        claims: list[ReadableClaim] = []
        together_names = dict[str, None]()
        for page in chosen or [standing[:1]]:
            of_page = sorted(
                page, key=lambda row: (not self._shared_figures(row), -self._shared(row))
            )
            stated_rows = min(sum(map(self._shared_figures, page)), _STATED_OF_PAGE)
            of_page = _with_whole_texts(of_page, max(stated_rows, _ROWS_OF_PAGE))
            for verdict in (Entailment.SUPPORTED, Entailment.NOT_STATED, None):
                group = [row for row in of_page if row.verdict == verdict]
                if not group:
                    continue
                together = sorted([*group, *_beside(group, standing)], key=standing.index)
                self._remember(row.id, group)
                if verdict is not None:
                    claims.append(claims_in_words.readable_again(together, verdict))
                    continue
                names = {name for each in group for name in each.claims}
                together_names |= dict.fromkeys(name for name in shared if name in names)
                if row.object_name or not names or names - shared.keys():
                    claims.append(claims_in_words.readable(together, shared))
        for name in together_names:
            self._remember(row.id, shared[name])
            claims.append(claims_in_words.readable_together(shared[name], name))
        if also := stated_beside(row.stated, row.properties):
            self._remember(row.id, (), also)
            claims.append(ReadableClaim(claims_in_words.other_values(row, also)))
        for text in self._elsewhere.get(row.id, ()):
            self._remember(row.id, (), text)
            if text not in self._shown_elsewhere:
                self._shown_elsewhere.add(text)
                claims.append(ReadableClaim(text))
        return claims

    def _shared(self, row: Row) -> int:
        """How many words of the citing sentences the values and the quote of a claim have."""
        quote = bytes(row.quote).decode(errors="ignore")
        return len(_words(f"{row.claims} {quote}") & self._words)

    def _shared_figures(self, row: Row) -> bool:
        """Whether a value has a figure that the conclusions state."""
        values = [value for name, value in row.claims.items() if name != "summary"]
        numbers = {str(value) for value in values if isinstance(value, int)}
        return not self._stated.isdisjoint(numbers | _figures(" ".join(map(str, values))))

    def _operands(self, rows: Iterable[Row]) -> frozenset[str]:
        """The figures in sentences of analyses that have a figure of the conclusions: it can be computed from them."""
        texts = [
            str(row.properties.get(key, ""))
            for row in rows
            if row.type == ANALYSIS_TYPE
            for key in ("summary", "content")
        ]
        found = [_figures(each.text) for text in texts for each in split_sentences(text)]
        return frozenset().union(*(each for each in found if each & self._figures))


def _with_whole_texts(rows: Sequence[Row], count: int) -> list[Row]:
    """The first rows, and further unread ones of a text that these have: it is judged by all quotes that it was given."""
    first = [*rows[:count]]
    texts = {
        name
        for row in first
        if row.verdict is None
        for name, value in row.claims.items()
        if isinstance(value, str) and " " in value
    }
    others = [each for each in rows[count:] if each.verdict is None and texts & each.claims.keys()]
    return first + others[:_MORE_OF_TEXT]


def _beside(group: Sequence[Row], rows: Sequence[Row]) -> list[Row]:
    """Further sentences of the page of a group, which were cited and have no value of their own."""
    page, verdict = group[0].source_id, group[0].verdict
    return [
        row
        for row in rows
        if row.source_id == page
        and not row.claims
        and (row.verdict is None or verdict is not None)
        and row not in group
    ][:_SENTENCES_BESIDE]


_TEXT_OF_TYPE: Final = {ANALYSIS_TYPE: "Analysis", ADVICE_TYPE: "Advice"}


def _conclusion_text(type_name: str, name: str, properties: Mapping[str, Any]) -> str:
    texts = [str(properties.get(key, "")) for key in ("summary", "content")]
    words = plain_line(" ".join(texts))
    return f'{_TEXT_OF_TYPE[type_name]} "{name}": {truncate_text(words, _MAX_ANALYSIS_CHARS)}'


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


def summarize(
    name: str, properties: Mapping[str, Any], verdicts: Sequence[SentenceReading]
) -> ReadingResponse | None:
    """How much of a conclusion was read; None if nothing was."""
    if not verdicts:
        return None
    counts = Counter[str](each.verdict for each in verdicts)
    sentences = sentences_of(name, properties)
    found = {each.number: each.verdict for each in verdicts}
    not_supported = [
        f"{str(found.get(number, _UNREAD)).replace('_', ' ')}: “{truncate_text(each.text, _MAX_SHOWN_CHARS)}”"
        for number, each in enumerate(sentences, 1)
        if found.get(number) not in (SentenceVerdict.SUPPORTED, SentenceVerdict.FOLLOWS)
    ]
    return ReadingResponse(
        sentences=len(sentences),
        supported=counts[SentenceVerdict.SUPPORTED] + counts[SentenceVerdict.FOLLOWS],
        plausible=counts[SentenceVerdict.PLAUSIBLE],
        model=verdicts[0].model,
        not_supported=not_supported[:_MAX_LISTED],
    )
