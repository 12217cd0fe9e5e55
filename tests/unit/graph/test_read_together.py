"""What a model reads of one page about one element."""

from datetime import date
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

from shared.enums import Entailment
from shared.graph.conclusions.readings import Draft, material_of
from shared.graph.conclusions.sentences import Sentence
from shared.graph.provenance.readings import grouped, passage_of, readable, readable_again
from tests.support.evidence_rows import evidence_row

TEXT = "Kesra opens a mill. It costs 12 million crowns. It makes 40 jobs. Nobody objects."


def row(quote: str, *, source: UUID, element: UUID, **claims: Any) -> Any:
    return evidence_row(TEXT, quote, source_id=source, id=element, claims=claims)


def test_sentences_of_one_page_on_one_element_are_one_claim() -> None:
    page, mill = uuid4(), uuid4()
    rows = [
        row("It costs 12 million crowns.", source=page, element=mill, cost=12),
        row("It makes 40 jobs.", source=page, element=mill, jobs=40),
    ]
    [group] = grouped(rows)
    claim = readable(group, passage_of(group))
    assert claim.text == 'Mill "Kesra": cost = 12; jobs = 40'
    assert claim.passage == (
        "Kesra opens a mill. »It costs 12 million crowns.« »It makes 40 jobs.« Nobody objects."
    )
    assert claim.evidence == tuple(each.evidence_id for each in rows)


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
            quote, source=page, element=mill, **{f"said{number}": "Kesra opens a mill in the north"}
        )
        for number in range(6)
    ]
    figure = row(quote, source=page, element=mill, cost=1250)
    rows = [vars(each) | {"top_id": mill, "verdict": None} for each in [*wordy, figure]]
    sentence = Sentence("Kesra opens a mill in the north for 1,250 crowns.", (mill,))
    material = material_of(
        [Draft(draft, "", (sentence,))], [mill], [SimpleNamespace(**each) for each in rows]
    )
    [claim] = material.claims
    assert ("cost = 1250" in claim.text, claim.text.count("said")) == (True, 3)


def test_a_claim_that_was_read_before_keeps_its_date() -> None:
    read = row("It makes 40 jobs.", source=uuid4(), element=uuid4(), jobs=40)
    read.said_on = date(2026, 11, 26)
    assert readable([read]).text == 'Mill "Kesra": jobs = 40 (2026-11-26)'


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
