"""Which sources put a conclusion in doubt, and verification of evidence chains from rows alone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from shared.database import ids
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.conclusions.citations import CitedElements
from shared.graph.provenance.claims import Claim
from shared.graph.provenance.integrity import EdgeRow, EvidenceRow, NodeRow, canonical_json, sha256
from shared.graph.retraction.doubts import invalidated_by, refused_sources
from shared.graph.verification import checks
from shared.graph.verification.checks import QuotedEvidence, find_unproven
from shared.tools.readings import EXISTS
from tests.support.case_files import read_cases
from tests.support.unordered_locks import UnorderedHash

CASES = read_cases(__file__)


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


def quoted_evidence(
    element_id: UUID, quote: bytes = QUOTE, source: UUID = AGENT, **claims: Any
) -> QuotedEvidence:
    row = EvidenceRow(
        id=ids.evidence_id(
            element_id, source, 5, 5 + len(quote), canonical_json([claims, None, None])
        ),
        element_id=element_id,
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
    seal = row.sealed(AGENT, [quoted.row.id for quoted in evidence])
    return row.model_copy(update={"seal": seal})


def fault_kinds(faults: checks.Faults) -> list[str]:
    return [fault.kind.value for fault in faults]


def test_a_node_is_valid_if_its_seal_matches_and_evidence_supports_every_property() -> None:
    row = node(capital="Accra")
    evidence = quoted_evidence(row.id, capital="Accra")
    assert fault_kinds(checks.check_node(AGENT, sealed(row, evidence), [evidence])) == []
    assert fault_kinds(checks.check_node(AGENT, row, [evidence])) == ["unproven"]
    assert fault_kinds(checks.check_node(AGENT, sealed(row), [])) == ["unproven", "unproven"]
    other = node(capital="Accrb", people=1)
    assert fault_kinds(checks.check_node(AGENT, sealed(other, evidence), [evidence])) == [
        "property",
        "unproven",
    ]
    assert fault_kinds(checks.check_node(AGENT, sealed(node(), evidence), [evidence])) == [
        "property"
    ]
    assert fault_kinds(checks.check_node(uuid4(), sealed(row, evidence), [evidence])) == ["seal"]


def test_booleans_differ_from_numbers_and_whole_numbers_equal_floats() -> None:
    row = node(open=True, people=9_000_000)
    evidence = quoted_evidence(row.id, open=1, people=9e6)
    assert fault_kinds(checks.check_node(AGENT, sealed(row, evidence), [evidence])) == ["property"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"quote": QUOTE[:-1]}, ["span", "quote"]),
        ({"quote": b"Another."}, ["quote"]),
        ({"text_bytes": 10}, ["span"]),
        ({"has_source": False}, ["source"]),
        ({}, []),
    ],
)
def test_evidence_is_valid_if_its_span_matches(change: dict[str, Any], expected: list[str]) -> None:
    evidence = quoted_evidence(uuid4(), capital="Accra")
    values = {"quote": evidence.quote, "text_bytes": evidence.text_bytes, **change}
    assert (
        fault_kinds(checks.check_evidence(AGENT, QuotedEvidence(evidence.row, **values)))
        == expected
    )


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
    assert fault_kinds(checks.check_edge(AGENT, row, [], ends)) == []
    ends[row.source_id] = "Country"
    assert fault_kinds(checks.check_edge(AGENT, row, [], ends)) == ["unproven", "unproven"]
    assert fault_kinds(checks.check_edge(AGENT, row, [], {})) == [
        "end",
        "end",
        "unproven",
        "unproven",
    ]


def test_advice_cites_existing_analyses_that_are_not_retracted() -> None:
    analysis, country = uuid4(), uuid4()
    content = f"As [node:{analysis}], [node:{country}] and [node:{uuid4()}] say."
    row = node("Wait", ADVICE_TYPE, content=content, summary="Wait.")
    existing = CitedElements({analysis: ANALYSIS_TYPE, country: "Country"}, set(), {country})
    kinds = fault_kinds(checks.check_conclusion(row, existing, is_doubted=False))
    assert kinds == ["citation", "retracted", "citation"]
    # That the cited element rests on retracted pages alone is a doubt, and no fault.
    kinds = fault_kinds(checks.check_conclusion(row, existing, is_doubted=True))
    assert kinds == ["citation", "citation"]
    malformed = node("Wait", ADVICE_TYPE, content=7)
    nothing = CitedElements({}, set())
    assert fault_kinds(checks.check_conclusion(malformed, nothing, is_doubted=False)) == [
        "citation"
    ]


def test_elements_that_rest_on_faulty_ones_are_unproven_also_in_cycles() -> None:
    top, left, right, below, other = (uuid4() for _ in range(5))
    rests_on = {top: [left, right], left: [right], right: [left, below], other: []}
    assert find_unproven(rests_on, [below]) == {below, right, left, top}
    assert find_unproven(rests_on, [top]) == {top}
    assert find_unproven(rests_on, []) == set()


def test_the_unordered_hash_does_not_depend_on_the_order_of_lines() -> None:
    def digest(*lines: str) -> str:
        unordered = UnorderedHash()
        for line in lines:
            unordered.add(line)
        return unordered.hexdigest()

    assert digest("a", "b", "c") == digest("c", "a", "b")
    assert (
        len({digest(), digest("a"), digest("a", "a"), digest("a", "b"), digest("ab"), digest("")})
        == 6
    )


def test_properties_of_elements_due_for_projection_are_not_checked() -> None:
    row = node(capital="Accra")
    retracted = quoted_evidence(row.id, capital="Accra")._replace(is_retracted=True)
    assert fault_kinds(checks.check_node(AGENT, sealed(row, retracted), [retracted])) == [
        "property"
    ]
    due = retracted._replace(is_due=True)
    assert fault_kinds(checks.check_node(AGENT, sealed(row, due), [due])) == []
    assert fault_kinds(checks.check_node(AGENT, sealed(node(people=1), due), [due])) == ["unproven"]


START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = START + timedelta(days=100)
RETRACTED, ACTIVE = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize(
    ("retracted", "active", "is_invalidated"),
    CASES["another_value_of_the_remaining_page_invalidates"],
)
def test_another_value_of_the_remaining_page_invalidates(
    retracted: Any, active: Any, is_invalidated: bool
) -> None:
    """True and 1 are different values in JSON, as they are for the properties."""
    claims = [
        Claim(RETRACTED, {"value": retracted}, START + timedelta(days=1), START, is_retracted=True),
        Claim(ACTIVE, {"value": active}, START, START),
    ]
    sources = {RETRACTED: RETRACTED, ACTIVE: ACTIVE}
    retracted_at = {RETRACTED: START + timedelta(days=2)}
    expected = {RETRACTED} if is_invalidated else set()
    assert invalidated_by(claims, sources, retracted_at, NOW) == expected


BAD, GOOD = UUID(int=1), UUID(int=2)
BAD_SOURCE, GOOD_SOURCE = UUID(int=11), UUID(int=12)
SOURCES = {BAD: BAD_SOURCE, GOOD: GOOD_SOURCE}


def _claim(evidence_id: UUID, day: int, *, is_retracted: bool = False, **values: Any) -> Claim:
    return Claim(evidence_id, values, START + timedelta(days=day), START, is_retracted)


@pytest.mark.parametrize(
    ("claims", "is_doubted"),
    [
        ([_claim(BAD, 1, value=7)], True),
        ([_claim(BAD, 1)], True),
        ([_claim(BAD, 1, is_retracted=True, value=7)], False),
        ([_claim(BAD, 2, value=7), _claim(GOOD, 1, value=7)], False),
        ([_claim(BAD, 2, value=7), _claim(GOOD, 1, value=8)], True),
        ([_claim(BAD, 1, value=7), _claim(GOOD, 2, value=8)], False),
        ([_claim(BAD, 1, value=7), _claim(GOOD, 2, other=8)], True),
        ([_claim(BAD, 1, value=7), _claim(GOOD, 2, is_retracted=True, value=7)], True),
        ([_claim(BAD, 1), _claim(GOOD, 2, value=7)], False),
        ([_claim(GOOD, 1, value=7)], False),
        ([], False),
    ],
)
def test_only_evidence_on_which_a_current_value_rests_doubts(
    claims: list[Claim], is_doubted: bool
) -> None:
    read = [
        replace(claim, refused=frozenset([EXISTS, *claim.values]))
        if claim.evidence_id == BAD
        else claim
        for claim in claims
    ]
    expected = {BAD_SOURCE: [BAD]} if is_doubted else {}
    assert refused_sources(read, SOURCES, NOW) == expected


def test_a_refused_value_doubts_only_what_it_would_show() -> None:
    bad = replace(_claim(BAD, 2, value=7, other=8), refused=frozenset(["value"]))
    assert refused_sources([bad, _claim(GOOD, 1, value=6)], SOURCES, NOW) == {BAD_SOURCE: [BAD]}
    assert refused_sources([bad, _claim(GOOD, 1, value=7)], SOURCES, NOW) == {}
    assert refused_sources([bad, _claim(GOOD, 3, value=5)], SOURCES, NOW) == {}
    denied = replace(_claim(BAD, 1), refused=frozenset([EXISTS]))
    assert refused_sources([denied], SOURCES, NOW) == {BAD_SOURCE: [BAD]}
    assert refused_sources([denied, _claim(GOOD, 1)], SOURCES, NOW) == {}
