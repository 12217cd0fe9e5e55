"""The rules of citing, as a table of cases."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.graph.conclusions.citations import (
    Citation,
    CitedElements,
    Kind,
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
FOUND = CitedElements(
    {COUNTRY: "Country", ANALYSIS: "AgentAnalysis", ADVICE: "AgentAdvice"}, frozenset({EDGE})
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
    cited = parse_citations(text)
    assert cited.citations == tuple(Citation(kind, each) for kind, each in citations)
    assert cited.malformed == tuple(malformed)


def test_ids_are_of_the_kind_asked_for() -> None:
    cited = parse_citations(f"[edge:{EDGE}] [node:{COUNTRY}]")
    assert cited.ids() == [EDGE, COUNTRY]
    assert cited.ids(Kind.NODE) == [COUNTRY]
    assert cited.ids(Kind.EDGE) == [EDGE]


@given(st.lists(st.tuples(st.sampled_from(Kind), st.uuids()), unique=True), st.text("ab []\n:"))
def test_what_is_written_as_a_citation_is_read_as_one(
    things: list[tuple[Kind, UUID]], between: str
) -> None:
    written = [Citation(kind, each) for kind, each in things]
    assert parse_citations(between.join(map(str, written))).citations == tuple(written)


@pytest.mark.parametrize(
    ("content", "summary", "why"),
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
def test_an_analysis_cites_what_exists(content: str, summary: str, why: RefusalCode | None) -> None:
    refusal = refuse_analysis(content, summary, FOUND)
    assert (refusal and refusal.code) == why


@pytest.mark.parametrize(
    ("content", "summary", "why"),
    [
        (f"[node:{ANALYSIS}]", "", None),
        (f"[node:{ANALYSIS}]", f"[node:{ANALYSIS}]", None),
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
def test_advice_cites_analyses_and_nothing_else(
    content: str, summary: str, why: RefusalCode | None
) -> None:
    refusal = refuse_advice(content, summary, FOUND)
    assert (refusal and refusal.code) == why


def test_a_refusal_names_what_is_wrong_and_how_to_mend_it() -> None:
    missing = refuse_analysis(f"[node:{ABSENT}]", "", FOUND)
    assert missing is not None
    assert missing.reason.startswith(f"These do not exist: [node:{ABSENT}]. Cite only what")
    other = refuse_advice(f"[node:{ANALYSIS}] [node:{COUNTRY}] [edge:{EDGE}]", "", FOUND)
    assert other is not None
    assert f"[node:{COUNTRY}] (Country), [edge:{EDGE}] (an edge)" in other.reason
    unreadable = refuse_advice("[node:Ghana]", "", FOUND)
    assert unreadable is not None
    assert "Not citations: [node:Ghana]. Write each as [node:uuid]" in unreadable.reason
    none = refuse_advice("Buy.", "", FOUND)
    assert none is not None
    assert "cite each AgentAnalysis it rests on as [node:uuid]" in none.reason


def test_a_refusal_does_not_repeat_a_hundred_things() -> None:
    absent = " ".join(f"[node:{UUID(int=1000 + number)}]" for number in range(100))
    refusal = refuse_analysis(absent, "", FOUND)
    assert refusal is not None
    assert "and 95 more" in refusal.reason
    assert len(refusal.reason) < 600


def test_citations_are_replaced_by_what_is_given_and_all_else_stays() -> None:
    names = {Citation(Kind.NODE, COUNTRY): "Ghana", Citation(Kind.EDGE, EDGE): "a border"}
    text = f"a [NODE:{COUNTRY}], [edge:{EDGE}] [edge:{COUNTRY}] [node:Ghana] [node:{ABSENT}]"
    assert replace_citations(text, names.get) == (
        f"a Ghana, a border [edge:{COUNTRY}] [node:Ghana] [node:{ABSENT}]"
    )
