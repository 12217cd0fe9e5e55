"""The citation rules, as a table of cases."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.graph.conclusions.citations import (
    Citation,
    CitedElements,
    Kind,
    ParsedCitations,
    RefusalCode,
    parse_citations,
    refuse_advice,
    refuse_analysis,
    replace_citations,
)

COUNTRY = UUID(int=1)
ANALYSIS = UUID(int=2)
ADVICE = UUID(int=3)
EDGE = UUID(int=4)
ABSENT = UUID(int=5)
OTHER_ANALYSIS = UUID(int=6)
CITED_ELEMENTS = CitedElements(
    {
        COUNTRY: "Country",
        ANALYSIS: "AgentAnalysis",
        OTHER_ANALYSIS: "AgentAnalysis",
        ADVICE: "AgentAdvice",
    },
    frozenset({EDGE}),
)


@pytest.mark.parametrize(
    ("text", "citations", "malformed"),
    [
        ("", [], []),
        ("nothing [here] or [1]", [], []),
        (f"a [node:{COUNTRY}].", [(Kind.NODE, COUNTRY)], []),
        (f"[edge:{EDGE}][node:{COUNTRY}]", [(Kind.EDGE, EDGE), (Kind.NODE, COUNTRY)], []),
        (f"[node:{COUNTRY}] and [node:{COUNTRY}]", [(Kind.NODE, COUNTRY)], []),
        (f"[NODE:{str(ABSENT).upper()}]", [(Kind.NODE, ABSENT)], []),
        (f"[{COUNTRY}]", [], []),
        ("[node:Ghana]", [], ["[node:Ghana]"]),
        (f"[node: {COUNTRY}]", [], [f"[node: {COUNTRY}]"]),
        (f"[node:{COUNTRY}, node:{ANALYSIS}]", [], [f"[node:{COUNTRY}, node:{ANALYSIS}]"]),
        (f"[node:{COUNTRY.hex}]", [], [f"[node:{COUNTRY.hex}]"]),
        ("[node:]", [], ["[node:]"]),
        ("[edge:12\nmore", [], ["[edge:12"]),
    ],
)
def test_parse(text: str, citations: list[tuple[Kind, UUID]], malformed: list[str]) -> None:
    parsed = parse_citations(text)
    assert parsed.citations == tuple(Citation(kind, element_id) for kind, element_id in citations)
    assert parsed.malformed == tuple(malformed)


def test_ids_are_filtered_by_kind() -> None:
    parsed = parse_citations(f"[edge:{EDGE}] [node:{COUNTRY}]")
    assert parsed.ids() == [EDGE, COUNTRY]
    assert parsed.ids(Kind.NODE) == [COUNTRY]
    assert parsed.ids(Kind.EDGE) == [EDGE]


@given(st.lists(st.tuples(st.sampled_from(Kind), st.uuids()), unique=True), st.text("ab []\n:"))
def test_citations_survive_the_round_trip(
    elements: list[tuple[Kind, UUID]], separator: str
) -> None:
    expected = [Citation(kind, element_id) for kind, element_id in elements]
    assert parse_citations(separator.join(map(str, expected))).citations == tuple(expected)


@pytest.mark.parametrize(
    ("content", "summary", "expected"),
    [
        (f"[node:{COUNTRY}]", "", None),
        (f"[edge:{EDGE}]", "", None),
        (f"[node:{ANALYSIS}] [edge:{EDGE}]", f"see [node:{COUNTRY}]", None),
        ("no citation", "", RefusalCode.NOTHING_CITED),
        ("", f"[node:{COUNTRY}]", RefusalCode.NOTHING_CITED),
        ("[node:Ghana]", "", RefusalCode.MALFORMED),
        (f"[node:{COUNTRY}]", "[node:Ghana]", RefusalCode.MALFORMED),
        (f"[node:{COUNTRY}] [node:{ABSENT}]", "", RefusalCode.DOES_NOT_EXIST),
        (f"[node:{COUNTRY}]", f"[edge:{ABSENT}]", RefusalCode.DOES_NOT_EXIST),
        (f"[node:{EDGE}]", "", RefusalCode.DOES_NOT_EXIST),
        (f"[edge:{COUNTRY}]", "", RefusalCode.DOES_NOT_EXIST),
    ],
)
def test_an_analysis_cites_existing_elements(
    content: str, summary: str, expected: RefusalCode | None
) -> None:
    refusal = refuse_analysis(content, summary, CITED_ELEMENTS)
    assert (refusal and refusal.code) == expected


@pytest.mark.parametrize(
    ("content", "summary", "expected"),
    [
        (f"[node:{ANALYSIS}] [node:{OTHER_ANALYSIS}]", "", None),
        (f"[node:{ANALYSIS}] [node:{OTHER_ANALYSIS}]", f"[node:{ANALYSIS}]", None),
        (f"[node:{ANALYSIS}]", "", RefusalCode.TOO_FEW),
        (f"[node:{ANALYSIS}] [node:{ANALYSIS}]", "", RefusalCode.TOO_FEW),
        (f"[node:{ANALYSIS}]", f"[node:{OTHER_ANALYSIS}]", RefusalCode.TOO_FEW),
        ("no citation", "", RefusalCode.NOTHING_CITED),
        ("[node:Big]", "", RefusalCode.MALFORMED),
        (f"[node:{ABSENT}]", "", RefusalCode.DOES_NOT_EXIST),
        (f"[node:{COUNTRY}]", "", RefusalCode.NOT_AN_ANALYSIS),
        (f"[node:{ANALYSIS}] [node:{COUNTRY}]", "", RefusalCode.NOT_AN_ANALYSIS),
        (f"[node:{ANALYSIS}] [node:{ADVICE}]", "", RefusalCode.NOT_AN_ANALYSIS),
        (f"[node:{ANALYSIS}] [edge:{EDGE}]", "", RefusalCode.NOT_AN_ANALYSIS),
        (f"[node:{ANALYSIS}]", f"[node:{COUNTRY}]", RefusalCode.NOT_AN_ANALYSIS),
    ],
)
def test_advice_cites_only_analyses(
    content: str, summary: str, expected: RefusalCode | None
) -> None:
    refusal = refuse_advice(content, summary, CITED_ELEMENTS)
    assert (refusal and refusal.code) == expected


def test_the_owner_may_allow_advice_from_one_analysis() -> None:
    assert refuse_advice(f"[node:{ANALYSIS}]", "", CITED_ELEMENTS, min_analyses=1) is None
    refusal = refuse_advice(f"[node:{ANALYSIS}]", "", CITED_ELEMENTS)
    assert refusal is not None
    assert refusal.reason.endswith("if there is none, give no advice.")


def test_what_only_looks_like_a_short_id_is_no_citation() -> None:
    text = "Petrol [E10], masks [N95], notes [n5] and [e4]."
    assert parse_citations(text) == ParsedCitations((), ())


def test_a_refusal_names_the_fault_and_the_fix() -> None:
    missing = refuse_analysis(f"[node:{ABSENT}]", "", CITED_ELEMENTS)
    assert missing is not None
    assert missing.reason.startswith(f"These do not exist: [node:{ABSENT}]. Cite only what")
    other = refuse_advice(f"[node:{ANALYSIS}] [node:{COUNTRY}] [edge:{EDGE}]", "", CITED_ELEMENTS)
    assert other is not None
    assert f"[node:{COUNTRY}] (Country), [edge:{EDGE}] (an edge)" in other.reason
    unreadable = refuse_advice("[node:Ghana]", "", CITED_ELEMENTS)
    assert unreadable is not None
    assert "Not citations: [node:Ghana]. Write each as [n17]" in unreadable.reason
    uncited = refuse_advice("Buy.", "", CITED_ELEMENTS)
    assert uncited is not None
    assert "cite each AgentAnalysis it rests on as [n17]" in uncited.reason


def test_a_refusal_lists_only_the_first_missing_elements() -> None:
    absent = " ".join(f"[node:{UUID(int=1000 + number)}]" for number in range(100))
    refusal = refuse_analysis(absent, "", CITED_ELEMENTS)
    assert refusal is not None
    assert "and 95 more" in refusal.reason
    assert len(refusal.reason) < 600


def test_known_citations_are_replaced_and_other_text_is_unchanged() -> None:
    names = {Citation(Kind.NODE, COUNTRY): "Ghana", Citation(Kind.EDGE, EDGE): "a border"}
    text = f"a [NODE:{COUNTRY}], [edge:{EDGE}] [edge:{COUNTRY}] [node:Ghana] [node:{ABSENT}]"
    assert replace_citations(text, names.get) == (
        f"a Ghana, a border [edge:{COUNTRY}] [node:Ghana] [node:{ABSENT}]"
    )


@pytest.mark.parametrize(
    ("cited", "code", "words"),
    [
        ({"unsupported": {ANALYSIS}}, RefusalCode.RETRACTED, "rest on a page that was retracted"),
        ({"doubted": {ANALYSIS}}, RefusalCode.DOUBTED, "are in doubt"),
    ],
)
def test_the_reason_of_a_refusal_is_that_of_the_cited_element(
    cited: dict[str, set[UUID]], code: RefusalCode, words: str
) -> None:
    elements = CitedElements(
        {ANALYSIS: "AgentAnalysis", OTHER_ANALYSIS: "AgentAnalysis"}, set(), **cited
    )
    refusal = refuse_advice(f"[node:{ANALYSIS}] [node:{OTHER_ANALYSIS}]", "", elements)
    assert refusal is not None
    assert refusal.code == code
    assert words in refusal.reason
    assert f"[node:{ANALYSIS}]" in refusal.reason
    assert ("retracted" in refusal.reason.split(":")[0]) == (code is RefusalCode.RETRACTED)
