"""The rules that decide whether a conclusion follows from what it cites: labelled conclusions, and single rules."""

import json
import random
import re
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Final

import pytest

from shared.graph.conclusions import rules
from shared.graph.grounding.conclusions import ConclusionFinding, check_conclusion
from shared.graph.grounding.known import CitedElement
from shared.graph.grounding.outcomes import Level, is_rounded
from tests.support.case_files import read_cases
from tests.support.conclusion_cases import CASES, MISSION, ConclusionCase
from tests.support.sandbox.requests import ANALYSIS, answer, arguments, request

ROUNDINGS = read_cases(__file__)

MAX_FALSE_REFUSALS: Final = 0.03
MIN_CASES: Final = 150
"""Of true ones, and of false ones."""
MAX_WRONG_DIGITS: Final = 0.02
TERMS: Final = {
    "confidence": 0.7,
    "horizon": "2027-03-31",
    "generated_at": "2026-11-26T10:00:00Z",
}
GHANA: Final = CitedElement(
    "Country",
    ("Ghana",),
    (("population", 33_800_000), ("gdp_usd", 76_370_000_000), ("capital", "Accra")),
)


def judge(case: ConclusionCase) -> list[ConclusionFinding]:
    return check_conclusion(case.texts, case.cited, owner_texts=[MISSION], terms=TERMS)


def is_refused(case: ConclusionCase) -> bool:
    return bool(rules.refused(judge(case)))


def refusal_of(content: str, *cited: CitedElement, **texts: str) -> str:
    findings = check_conclusion({"content": content, **texts}, cited, terms=TERMS)
    return rules.refusal("AgentAnalysis", findings)


def test_there_are_enough_cases() -> None:
    counts = Counter(case.fault is None for case in CASES)
    assert min(counts.values()) >= MIN_CASES


def test_false_numbers_and_names_are_refused() -> None:
    assert [case.content for case in CASES if case.fault and not is_refused(case)] == []


def test_true_conclusions_are_rarely_refused() -> None:
    true = [case for case in CASES if not case.fault]
    assert sum(map(is_refused, true)) <= MAX_FALSE_REFUSALS * len(true)


_NUMBER: Final = re.compile(r"(?<![\w.,])\d[\d.,]*\d|(?<![\w.,])\d(?![\w.,])")
_LIST_NUMBER: Final = re.compile(r"(?:^|\n)\d{1,2}[.)] ")


def test_a_wrong_digit_is_refused() -> None:
    """One of the first two digits of each number of the true cases is another one."""
    draw, accepted, count = random.Random(1), 0, 0
    for case in CASES:
        for match in _NUMBER.finditer(case.content):
            is_list_number = _LIST_NUMBER.match(case.content, max(0, match.start() - 1))
            if case.fault or is_list_number:
                continue
            places = [at for at in range(*match.span()) if case.content[at].isdigit()][:2]
            at = draw.choice(places)
            digit = int(case.content[at])
            other = draw.choice([each for each in range(1, 10) if abs(each - digit) > 1])
            content = f"{case.content[:at]}{other}{case.content[at + 1 :]}"
            accepted += not is_refused(replace(case, content=content))
            count += 1
    assert count > 400
    assert accepted <= MAX_WRONG_DIGITS * count


@pytest.mark.parametrize(("written", "step", "exact", "expected"), ROUNDINGS["rounding"])
def test_rounding(written: str, step: str, exact: str, *, expected: bool) -> None:
    assert is_rounded(Decimal(written), Decimal(step), Decimal(exact)) is expected


def test_a_refusal_names_the_value_and_says_what_to_do() -> None:
    reason = refusal_of("Ghana has 38 million people, and Nigeria more.", GHANA)
    assert "content: '38 million' is not in anything that is cited" in reason
    assert "content: 'Nigeria' is not named in anything that is cited" in reason
    assert "Cite what has it, write the arithmetic with its operands, or leave it out." in reason


def test_a_refusal_has_the_right_value() -> None:
    reason = refusal_of("It rose from 10 to 12 tonnes, by 30 %.", _tonnes(10, 12))
    assert "the change from 10 to 12 tonnes is 20.0 %" in reason
    reason = refusal_of("It has 4 plants.", CitedElement("Maker", ("Orran",), (("plants", 5),)))
    assert "'4' is wrong: what is cited says 5 (plants of Orran)" in reason


def _tonnes(*values: float) -> CitedElement:
    return CitedElement(
        "Mine",
        ("Kestrel",),
        tuple((f"output_{2020 + at}_tonnes", value) for at, value in enumerate(values)),
    )


def test_what_is_computed_in_one_text_may_be_repeated_in_the_others() -> None:
    content = "It rose from 10 to 12 tonnes, by 20 %."
    assert refusal_of(content, _tonnes(10, 12), summary="A rise of 20 %.", name="Up 20 %") == ""
    reason = refusal_of(content, _tonnes(10, 12), name="Up 25 %")
    assert reason.startswith("name: '25 %'")


CASTELLAN: Final = CitedElement(
    "Carrier",
    ("Castellan",),
    (("netDebtEurBillion", 1.44), ("ebitdaEurMillion", 249), ("ships", 3)),
    dates=("2026-09-30",),
)


@pytest.mark.parametrize(
    ("content", "summary", "refused"), ROUNDINGS["what_one_text_computes_the_others_may_repeat"]
)
def test_what_one_text_computes_the_others_may_repeat(
    content: str, summary: str, refused: str
) -> None:
    findings = rules.refused(
        check_conclusion({"content": content, "summary": summary}, [CASTELLAN])
    )
    assert [each.written for each in findings] == ([refused] if refused else [])


@pytest.mark.parametrize(("content", "refused"), ROUNDINGS["months_of_a_year_are_a_period"])
def test_months_of_a_year_are_a_period(content: str, refused: str) -> None:
    findings = rules.refused(check_conclusion({"content": content}, [CASTELLAN]))
    assert "".join(each.written for each in findings).startswith(refused)
    assert bool(findings) == bool(refused)


def test_thresholds_of_a_forecast_are_free_but_names_are_not() -> None:
    invalidation = "The price of cocoa rises above 70 USD before 2028-01-01."
    assert refusal_of("Ghana is large.", GHANA, invalidation=invalidation) == ""
    reason = refusal_of("Ghana is large.", GHANA, invalidation="Nigeria overtakes it by 5 %.")
    assert reason.startswith("invalidation: 'Nigeria'")


def test_names_of_the_mission_are_allowed() -> None:
    texts = {"content": "Buyers such as Barry Callebaut rely on Ghana."}
    assert rules.refused(check_conclusion(texts, [GHANA]))
    assert not rules.refused(check_conclusion(texts, [GHANA], owner_texts=[MISSION]))


def test_superseded_values_are_known() -> None:
    ghana = replace(GHANA, values=(*GHANA.values, ("population", 32_400_000)))
    assert refusal_of("Ghana grew from 32.4 million to 33.8 million people, by 4.3 %.", ghana) == ""


def test_texts_of_cited_analyses_are_known() -> None:
    analysis = CitedElement(
        "AgentAnalysis",
        ("Ghana is large",),
        (("content", "Ghana has 33.8 million people [node:x], 3.9 times as many as Togo."),),
    )
    assert refusal_of("Ghana is 3.9 times as large as Togo.", analysis) == ""
    assert "'4.9 times'" in refusal_of("Ghana is 4.9 times as large as Togo.", analysis)


def test_a_name_at_the_beginning_of_a_sentence_may_be_a_common_noun() -> None:
    """A limit: rules have no dictionary. Elsewhere, and if it is a place, it is refused."""
    assert refusal_of("Kosmos has plants in Ghana.", GHANA) == ""
    assert "'Kosmos'" in refusal_of("In Ghana, Kosmos has plants.", GHANA)
    assert "'Nigeria'" in refusal_of("Nigeria has plants.", GHANA)


def test_the_conclusions_of_the_sandbox_follow() -> None:
    ids = [f"00000000-0000-4000-8000-00000000000{digit}" for digit in (1, 2)]
    figures: dict[str, dict[str, str]] = {
        "Ghana": {"Exports 2023": "$25.4 billion", "Exports 2021": "$23.9 billion"},
        "Togo": {"Exports 2020": "$1.7 billion", "Imports": "$2 billion"},
    }
    nodes = zip(ids, figures.items(), strict=True)
    sections = {
        "mission": "Watch exports",
        "insight": f"Observation: Both state “Exports”.\nRelevant node ids: {', '.join(ids)}",
        "relevant_nodes": "\n".join(
            f'- [node:{node_id}] Country "{name}" {json.dumps(values)}'
            for node_id, (name, values) in nodes
        ),
        "graph_context": "",
    }
    [analysis] = arguments(answer(request(sections, ANALYSIS)), "addAgentAnalysisNode")
    texts = {key: analysis[key] for key in ("name", "summary", "content")}
    assert "14.9 times the lower" in texts["summary"]
    cited = [
        CitedElement("Country", (name,), tuple(values.items())) for name, values in figures.items()
    ]
    assert rules.refused(check_conclusion(texts, cited)) == []


def test_verdicts() -> None:
    findings = check_conclusion({"content": "Ghana has 33.8 million people."}, [GHANA])
    assert {each.written: each.finding.level for each in findings} == {
        "33.8 million": Level.MATCHED,
        "Ghana": Level.MATCHED,
    }


def test_a_value_with_three_decimals_and_a_scale_is_one_number() -> None:
    turkey = CitedElement(
        "Country", ("Turkey",), (("Imports 2024", "$367.022 billion (2024 est.)"),)
    )
    text = "Turkey imported goods for $367.022 billion in 2024."
    findings = check_conclusion({"content": text}, [turkey])
    assert not rules.refused(findings)
    wrong = check_conclusion({"content": text.replace("367.022", "376.022")}, [turkey])
    assert rules.refused(wrong)
