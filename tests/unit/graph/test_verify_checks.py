"""What makes a chain hold, decided from rows alone."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from shared.database import ids
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.conclusions.citations import CitedElements
from shared.graph.provenance.integrity import EdgeRow, EvidenceRow, NodeRow, canonical_json, sha256
from shared.graph.verification import checks
from shared.graph.verification.checks import QuotedEvidence, Support, find_unproven
from tests.support.unordered import UnorderedHash

AGENT = uuid4()
WHEN = datetime(2026, 3, 1, tzinfo=UTC)
QUOTE = "Accra, é".encode()


def node(name: str = "Ghana", type_name: str = "Country", **properties: Any) -> NodeRow:
    return NodeRow(
        id=ids.node_id(AGENT, type_name, name),
        type=type_name,
        name=name,
        properties=properties,
        seal=None,
        created_at=WHEN,
        updated_at=WHEN,
    )


def spanned(of: UUID, quote: bytes = QUOTE, source: UUID = AGENT, **claims: Any) -> QuotedEvidence:
    row = EvidenceRow(
        id=ids.evidence_id(of, source, 5, 5 + len(quote), canonical_json([claims, None, None])),
        element_id=of,
        source_id=source,
        first_byte=5,
        end_byte=5 + len(quote),
        quote_sha256=sha256(quote),
        claims=claims,
        valid_from=None,
        valid_to=None,
        as_of=WHEN,
        learned_at=WHEN,
        seal=b"",
    )
    return QuotedEvidence(row.model_copy(update={"seal": row.sealed(AGENT)}), quote, 100)


def sealed(row: NodeRow, *evidence: QuotedEvidence) -> NodeRow:
    seal = row.sealed(AGENT, [each.row.id for each in evidence])
    return row.model_copy(update={"seal": seal})


def broken(faults: checks.Faults) -> list[str]:
    return [fault.kind.value for fault in faults]


def test_a_node_holds_where_its_seal_does_and_pages_say_all_of_it() -> None:
    row = node(capital="Accra")
    says = spanned(row.id, capital="Accra")
    assert broken(checks.check_node(AGENT, sealed(row, says), [says])) == []
    assert broken(checks.check_node(AGENT, row, [says])) == ["unproven"]
    assert broken(checks.check_node(AGENT, sealed(row), [])) == ["unproven", "unproven"]
    other = node(capital="Accrb", people=1)
    assert broken(checks.check_node(AGENT, sealed(other, says), [says])) == ["property", "unproven"]
    assert broken(checks.check_node(AGENT, sealed(node(), says), [says])) == ["property"]
    assert broken(checks.check_node(uuid4(), sealed(row, says), [says])) == ["seal"]


def test_a_flag_is_no_number_and_a_whole_number_is_one_however_it_is_spelt() -> None:
    row = node(open=True, people=9_000_000)
    says = spanned(row.id, open=1, people=9e6)
    assert broken(checks.check_node(AGENT, sealed(row, says), [says])) == ["property"]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"quote": QUOTE[:-1]}, ["span", "quote"]),
        ({"quote": b"Another."}, ["quote"]),
        ({"text_bytes": 10}, ["span"]),
        ({"has_source": False}, ["source"]),
        ({}, []),
    ],
)
def test_evidence_holds_where_its_span_does(change: dict[str, Any], found: list[str]) -> None:
    good = spanned(uuid4(), capital="Accra")
    given = {"quote": good.quote, "text_bytes": good.text_bytes, **change}
    assert broken(checks.check_evidence(AGENT, QuotedEvidence(good.row, **given))) == found


def test_an_edge_needs_its_ends_and_a_page_or_an_analysis() -> None:
    row = EdgeRow(
        id=uuid4(),
        type="about",
        source_id=uuid4(),
        target_id=uuid4(),
        properties={"strength": 1},
        seal=None,
        created_at=WHEN,
        updated_at=WHEN,
    )
    row = row.model_copy(update={"seal": row.sealed(AGENT, [])})
    ends = {row.source_id: ANALYSIS_TYPE, row.target_id: "Country"}
    assert broken(checks.check_edge(AGENT, row, [], ends)) == []
    ends[row.source_id] = "Country"
    assert broken(checks.check_edge(AGENT, row, [], ends)) == ["unproven", "unproven"]
    assert broken(checks.check_edge(AGENT, row, [], {})) == ["end", "end", "unproven", "unproven"]


def test_advice_cites_analyses_that_are_there_and_not_retracted() -> None:
    analysis, country = uuid4(), uuid4()
    content = f"As [node:{analysis}], [node:{country}] and [node:{uuid4()}] say."
    row = node("Wait", ADVICE_TYPE, content=content, summary="Wait.")
    support = Support(
        CitedElements({analysis: ANALYSIS_TYPE, country: "Country"}, set()), {country}
    )
    told = broken(checks.check_conclusion(row, support))
    assert told == ["citation", "retracted", "citation"]
    gone = node("Wait", ADVICE_TYPE, content=7)
    assert broken(checks.check_conclusion(gone, Support(CitedElements({}, set())))) == ["citation"]


def test_whatever_rests_on_what_is_broken_does_not_hold_in_circles_too() -> None:
    top, left, right, below, other = (uuid4() for _ in range(5))
    rests_on = {top: [left, right], left: [right], right: [left, below], other: []}
    assert find_unproven(rests_on, [below]) == {below, right, left, top}
    assert find_unproven(rests_on, [top]) == {top}
    assert find_unproven(rests_on, []) == set()


def test_a_hash_of_lines_in_any_order() -> None:
    def of(*lines: str) -> str:
        told = UnorderedHash()
        for line in lines:
            told.add(line)
        return told.hexdigest()

    assert of("a", "b", "c") == of("c", "a", "b")
    assert len({of(), of("a"), of("a", "a"), of("a", "b"), of("ab"), of("")}) == 6


def test_what_is_due_is_not_asked_whether_it_follows_yet() -> None:
    row = node(capital="Accra")
    says = replace(spanned(row.id, capital="Accra"), is_retracted=True)
    assert broken(checks.check_node(AGENT, sealed(row, says), [says])) == ["property"]
    due = replace(says, is_due=True)
    assert broken(checks.check_node(AGENT, sealed(row, due), [due])) == []
    assert broken(checks.check_node(AGENT, sealed(node(people=1), due), [due])) == ["unproven"]
