"""What a model reads of one page about one element."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

from shared.enums import ANALYSIS_TYPE, Entailment
from shared.graph.conclusions.readings import Draft, material_of
from shared.graph.conclusions.sentences import Sentence
from shared.graph.provenance.readings import as_it_is, grouped, passage_of, readable, readable_again
from shared.llm.reading_answers import read_verdicts
from shared.tools.readings import Material
from tests.support.evidence_rows import evidence_row

TEXT = "Kesra opens a mill. It costs 12 million crowns. It makes 40 jobs. Nobody objects."


def row(quote: str, *, source: UUID, element: UUID, **claims: Any) -> Any:
    return evidence_row(TEXT, quote, source_id=source, id=element, claims=claims)


def test_sentences_of_one_page_on_one_element_are_read_together() -> None:
    page, mill = uuid4(), uuid4()
    rows = [
        row("It costs 12 million crowns.", source=page, element=mill, cost=12),
        row("It makes 40 jobs.", source=page, element=mill, jobs=40),
    ]
    [group] = grouped(rows)
    claim = readable(group)
    assert claim.text == 'Mill "Kesra": cost = 12; jobs = 40'
    assert claim.passage == (
        "Kesra opens a mill. »It costs 12 million crowns.« »It makes 40 jobs.« Nobody objects."
    )
    ids = [each.evidence_id for each in rows]
    assert claim.values == {"cost": ids[:1], "jobs": ids[1:]}


def test_each_value_of_each_quote_has_its_own_verdict() -> None:
    page, mill = uuid4(), uuid4()
    rows = [
        row("It costs 12 million crowns.", source=page, element=mill, cost=12, summary="A mill."),
        row("It makes 40 jobs.", source=page, element=mill, summary="A mill."),
        row("Nobody objects.", source=page, element=mill),
    ]
    [group] = grouped(rows)
    first, second, third = (each.evidence_id for each in rows)
    material = Material([readable(group)])
    assert _found(["1 cost c another price", "1 summary s"], material) == {
        (first, "cost"): "contradicted",
        (first, "summary"): "supported",
        (second, "summary"): "supported",
        (third, ""): "supported",
    }
    everything = {(first, "cost"), (first, "summary"), (second, "summary"), (third, "")}
    assert _found(["1 s"], material) == dict.fromkeys(everything, "supported")
    assert _found(["1 n"], material) == dict.fromkeys(everything, "not_stated")
    denied = _found(["1 c it is a lake"], material)
    assert denied == dict.fromkeys([*everything, (first, ""), (second, "")], "contradicted")
    assert _found(["1 s", '1 "cost" n: no price'], material)[first, "cost"] == "not_stated"
    assert _found(["1 cost s"], material).keys() == {(first, "cost"), (third, "")}
    assert _found(["1 s", "1 price n"], material) == {}, "it may be on any value"
    assert _found(["1 cost s", "1 cost c", "1 summary n"], material).keys() == {
        (first, "summary"),
        (second, "summary"),
    }
    assert _found(["1 cost s", "1 itself n"], material)[first, ""] == "not_stated"


def test_an_edge_is_a_claim_besides_its_values() -> None:
    owns = row("It makes 40 jobs.", source=uuid4(), element=uuid4(), share=5)
    owns.type, owns.object_name = "OWNS", "Ada Roe"
    material = Material([readable([owns])])
    assert material.claims[0].text == '"Kesra" OWNS "Ada Roe": share = 5'
    key, edge = (owns.evidence_id, "share"), (owns.evidence_id, "")
    assert _found(["1 share n", "1 itself s"], material) == {key: "not_stated", edge: "supported"}
    assert _found(["1 n"], material) == {key: "not_stated", edge: "not_stated"}
    assert _found(["1 share c"], material) == {key: "contradicted"}


def test_a_resumed_reading_has_the_values_and_one_of_the_release_before_has_none() -> None:
    rows = [row("It makes 40 jobs.", source=uuid4(), element=uuid4(), jobs=40, cost=12)]
    material = Material([readable(rows)])
    stored = material.as_json()
    lines = ["1 jobs s", "1 cost n"]
    assert _found(lines, Material.from_json(stored)) == _found(lines, material)
    del stored["values"]
    assert _found(["1 n"], Material.from_json(stored)) == {
        (rows[0].evidence_id, None): "not_stated"
    }


def test_two_values_of_one_property_are_two_claims() -> None:
    page, mill = uuid4(), uuid4()
    rows = [
        row("It makes 40 jobs.", source=page, element=mill, jobs=40),
        row("It costs 12 million crowns.", source=page, element=mill, jobs=12),
        row("Nobody objects.", source=page, element=mill),
    ]
    first, second = (readable(group) for group in grouped(rows))
    assert (first.text, second.text) == ('Mill "Kesra": jobs = 40', 'Mill "Kesra": jobs = 12')
    assert "»Nobody objects.«" in first.passage
    assert "»Nobody objects.«" in second.passage


def test_a_sentence_without_values_is_quoted_with_those_of_another_time_and_speaker() -> None:
    page, mill = uuid4(), uuid4()
    rows = [
        row("It costs 12 million crowns.", source=page, element=mill, cost=12),
        row("It makes 40 jobs.", source=page, element=mill),
    ]
    rows[0].valid_from, rows[0].speaker = datetime(2002, 1, 1, tzinfo=UTC), "Ada Roe"
    [group] = grouped(reversed(rows))
    assert readable(group).text == '"Ada Roe" says: Mill "Kesra": cost = 12 (from 2002-01-01)'


def _found(lines: list[str], material: Material) -> dict[tuple[UUID, str | None], str]:
    return {key: each.verdict.value for key, each in read_verdicts(lines, material)[0].items()}


def test_other_pages_elements_and_times_are_other_claims() -> None:
    page, mill = uuid4(), uuid4()
    first = row("It makes 40 jobs.", source=page, element=mill, jobs=40)
    others = [
        row("It makes 40 jobs.", source=uuid4(), element=mill, jobs=40),
        row("It makes 40 jobs.", source=page, element=uuid4(), jobs=40),
    ]
    assert len(grouped([first, *others])) == 3


def test_a_quote_that_supports_several_values_stands_once() -> None:
    page, mill = uuid4(), uuid4()
    rows = [row("It makes 40 jobs.", source=page, element=mill, **{key: 40}) for key in "ab"]
    assert passage_of(rows).count("»") == 1


def test_claims_with_a_figure_of_the_conclusion_are_read_before_others() -> None:
    mill, page, draft = uuid4(), uuid4(), uuid4()
    quote = "It makes 40 jobs."
    wordy = [
        row(
            quote,
            source=uuid4(),
            element=mill,
            **{f"said{number}": "Kesra opens a mill in the north"},
        )
        for number in range(6)
    ]
    figure = row(quote, source=page, element=mill, cost=1250)
    rows = [vars(each) | {"top_id": mill, "verdict": None} for each in [*wordy, figure]]
    sentence = Sentence("Kesra opens a mill in the north for 1,250 crowns.", (mill,))
    material = material_of(
        [Draft(draft, "", (sentence,))], [mill], [SimpleNamespace(**each) for each in rows]
    )
    texts = " ".join(claim.text for claim in material.claims)
    assert ("cost = 1250" in texts, texts.count("said")) == (True, 1)


def _material(text: str, rows: Sequence[Any], *cited: UUID) -> Material:
    sentence = Sentence(text, cited)
    return material_of([Draft(uuid4(), "", (sentence,))], [*cited], rows)


def _cited(mill: UUID, *rows: Any, **columns: Any) -> list[Any]:
    defaults = {"top_id": mill, "verdict": None} | columns
    return [SimpleNamespace(**(vars(each) | defaults)) for each in rows]


def test_a_text_of_several_pages_is_read_with_the_quotes_of_all() -> None:
    mill = uuid4()
    text = "It costs 12 million crowns and makes 40 jobs."
    rows = [
        row("It costs 12 million crowns.", source=uuid4(), element=mill, cost=12, summary=text),
        row("It makes 40 jobs.", source=uuid4(), element=mill, summary=text),
    ]
    rows[1].title = "Jobs"
    claims = _material("It costs 12 million and makes 40 jobs.", _cited(mill, *rows), mill).claims
    assert [each.text for each in claims] == [
        'Mill "Kesra": cost = 12',
        f'Mill "Kesra": summary = "{text}"',
    ]
    assert claims[1].values == {"summary": [each.evidence_id for each in rows]}
    assert "»It costs 12 million crowns.«" in claims[1].passage
    assert "»It makes 40 jobs.«" in claims[1].passage
    assert '"Kesra", ' in claims[1].page
    assert '; "Jobs", ' in claims[1].page


def test_quotes_are_chosen_by_the_words_of_the_sentences_that_cite_their_element() -> None:
    rule, other, page = uuid4(), uuid4(), uuid4()
    texts = [f"Part {letter} of the counting rule is binding." for letter in "abcdefgh"]
    wanted = "Passive standbys are left out."
    page_text = " ".join([*texts, wanted, "Servers are counted each quarter."])
    rows = [
        evidence_row(page_text, quote, source_id=page, id=rule, claims={f"v{n}": "counting rule"})
        for n, quote in enumerate([*texts, wanted])
    ]
    count = evidence_row(
        page_text, "Servers are counted each quarter.", source_id=uuid4(), id=other, claims={"n": 1}
    )
    sentences = (
        Sentence("Nine standbys are passive and do not count.", (rule,)),
        Sentence("Part a, part b and part c of the counting rule are binding.", (other,)),
    )
    material = material_of(
        [Draft(uuid4(), "", sentences)],
        [rule, other],
        [*_cited(rule, *rows), *_cited(other, count)],
    )
    assert f"»{wanted}«" in material.claims[0].passage


def test_a_text_is_read_with_all_quotes_of_its_page() -> None:
    mill, page = uuid4(), uuid4()
    quotes = [f"Fact {number} is in the summary." for number in range(9)]
    text = " ".join(quotes)
    rows = [
        evidence_row(text, quote, source_id=page, id=mill, claims={"summary": "All nine facts"})
        for quote in quotes
    ]
    [claim] = _material("Nine facts are in it.", _cited(mill, *rows), mill).claims
    assert all(f"»{quote}«" in claim.passage for quote in quotes)
    assert claim.values == {"summary": [each.evidence_id for each in rows]}


def test_what_is_said_elsewhere_is_shown_once() -> None:
    one, other = uuid4(), uuid4()
    rows = [
        *_cited(one, row("It makes 40 jobs.", source=uuid4(), element=one, jobs=400)),
        *_cited(other, row("It makes 40 jobs.", source=uuid4(), element=other, jobs=400)),
    ]
    sentence = Sentence("Both make 400 jobs.", (one, other))
    said = ['Mill "Later" (2026-11-28): »410 instead of 400 jobs«']
    elsewhere = {one: said, other: said}
    material = material_of([Draft(uuid4(), "", (sentence,))], [one, other], rows, elsewhere)
    assert sum("410 instead" in each.text for each in material.claims) == 1


def test_a_single_digit_with_a_unit_chooses_its_page() -> None:
    mill = uuid4()
    others = [
        row("Nobody objects.", source=uuid4(), element=mill, **{f"note{n}": "the royalty stays"})
        for n in range(4)
    ]
    royalty = row("It makes 40 jobs.", source=uuid4(), element=mill, royaltyPercent=3)
    material = _material("The royalty stays at 3%.", _cited(mill, *others, royalty), mill)
    assert any("royaltyPercent = 3" in each.text for each in material.claims)


def test_advice_is_shown_what_its_analysis_computes_a_figure_from() -> None:
    analysis, mill = uuid4(), uuid4()
    pages = [
        row("Nobody objects.", source=uuid4(), element=mill, **{f"note{n}": "its lead is small"})
        for n in range(4)
    ]
    score = row("It makes 40 jobs.", source=uuid4(), element=mill, score=80.4)
    [drawn] = _cited(
        analysis,
        row("Nobody objects.", source=uuid4(), element=analysis),
        type=ANALYSIS_TYPE,
        properties={"content": "The lead is 0.55 points: 80.4 against 79.85. It is small."},
    )
    rows = [drawn, *_cited(analysis, *pages, score)]
    shown = _material("Its lead is small, 0.55 points.", rows, analysis).claims
    assert any("score = 80.4" in each.text for each in shown)
    other = _material("Its lead is small.", rows, analysis).claims
    assert not any("score = 80.4" in each.text for each in other)


def test_a_sentence_is_not_read_again_because_its_claims_were_read() -> None:
    mill = uuid4()
    rows = [
        row("It costs 12 million crowns.", source=uuid4(), element=mill, cost=12, jobs=40),
        row("It makes 40 jobs.", source=uuid4(), element=mill, jobs=40),
    ]
    before = _material("It costs 12 and makes 40 jobs.", _cited(mill, *rows), mill)
    cost, jobs = ({**rows[0].claims} for _ in range(2))
    del cost["jobs"], jobs["cost"]
    after = [
        *_cited(mill, rows[0], claims=cost, verdict=Entailment.SUPPORTED),
        *_cited(mill, rows[0], claims=jobs, verdict=Entailment.NOT_STATED),
        *_cited(mill, rows[1], verdict=Entailment.SUPPORTED),
    ]
    again = _material("It costs 12 and makes 40 jobs.", after, mill)
    assert again.sentences[0].basis == before.sentences[0].basis
    assert again.shown <= before.shown


def test_a_claim_that_was_read_before_keeps_its_date() -> None:
    read = row("It makes 40 jobs.", source=uuid4(), element=uuid4(), jobs=40)
    read.said_on = date(2026, 11, 26)
    assert as_it_is(read).text == 'Mill "Kesra": jobs = 40 (2026-11-26)'


def test_a_claim_with_a_verdict_keeps_its_quote_and_speaker() -> None:
    page, mill = uuid4(), uuid4()
    read = row("It makes 40 jobs.", source=page, element=mill, summary="A mill.", jobs=40)
    read.speaker = "Ada Roe"
    claim = readable_again([read], Entailment.SUPPORTED)
    assert (claim.text, claim.passage) == (
        '"Ada Roe" says: Mill "Kesra": jobs = 40',
        "»It makes 40 jobs.«",
    )
    assert (claim.evidence, claim.verdict) == ([], Entailment.SUPPORTED)
    assert "A mill." in readable_again([read], Entailment.NOT_STATED).text
