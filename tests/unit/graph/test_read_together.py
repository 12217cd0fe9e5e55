"""What a model reads of one page about one element."""

from datetime import date
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

from shared.enums import Entailment
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
    cost, jobs = readable(group)
    assert (cost.text, jobs.text) == ('Mill "Kesra": cost = 12', 'Mill "Kesra": jobs = 40')
    assert cost.passage == (
        "Kesra opens a mill. »It costs 12 million crowns.« »It makes 40 jobs.« Nobody objects."
    )
    assert jobs.passage == "as above"
    assert [cost.evidence, jobs.evidence] == [(each.evidence_id,) for each in rows]


def test_values_of_the_same_sentences_are_one_claim() -> None:
    page, mill = uuid4(), uuid4()
    rows = [
        row("It costs 12 million crowns.", source=page, element=mill, cost=12, summary="A mill."),
        row("It makes 40 jobs.", source=page, element=mill, summary="A mill."),
        row("Nobody objects.", source=page, element=mill),
    ]
    cost, summary = readable(rows)
    ids = [each.evidence_id for each in rows]
    assert (cost.text, cost.evidence) == ('Mill "Kesra": cost = 12', (ids[0], ids[2]))
    assert (summary.text, summary.evidence) == (
        'Mill "Kesra": summary = "A mill."',
        (ids[0], ids[1]),
    )
    material = Material([cost, summary])
    found, _ = read_verdicts(["1 c another price", "2 s"], material)
    assert {place: found[each].verdict for place, each in enumerate(ids)} == {
        0: Entailment.CONTRADICTED,
        1: Entailment.SUPPORTED,
        2: Entailment.CONTRADICTED,
    }
    assert read_verdicts(["1 s"], material)[0].keys() == {ids[2]}, "the first has another claim"
    assert read_verdicts(["1 s", "2 n"], material)[0][ids[0]].verdict is Entailment.NOT_STATED


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
    assert (claim.evidence, claim.verdict) == ((), Entailment.SUPPORTED)
    assert "A mill." in readable_again([read], Entailment.NOT_STATED).text
