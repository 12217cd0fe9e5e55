"""Names made from missions, and the prompts made for them."""

from itertools import islice

import pytest
from services.api.prompts import default_prompts, in_words

from services.api.command import NAME_CHARACTERS, NewAgent
from services.api.naming import name_for, names_after

MISSION = "Watch the lithium supply of European battery makers"


@pytest.mark.parametrize(
    ("mission", "name"),
    [
        (MISSION, "Lithium Supply"),
        ("Track battery makers and their lithium supply", "Battery Makers Lithium Supply"),
        ("Tell me about EU carbon border rules, please", "EU Carbon Border Rules"),
        ("Watch quantum computing hardware roadmap vendors", "Quantum Computing Hardware Roadmap"),
        ("Watch lithium. Watch lithium! Lithium prices", "Lithium Prices"),
        ("Keep an eye on Nigeria", "Eye Nigeria"),
        ("Look at what is new in Ghana and tell me", "Ghana Watch"),
        ("find what is good", "Watch"),
        ("x" * 300, "X" + "x" * 39 + " Watch"),
    ],
)
def test_a_name_is_made_of_the_missions_own_words(mission: str, name: str) -> None:
    assert name_for(mission) == name


@pytest.mark.parametrize(
    "mission", ["//////////", "¿¿¿¿¿¿¿¿¿¿", "日本の電池メーカーを見守る仕事", "a" * 4000]
)
def test_every_mission_gives_a_name_that_is_allowed(mission: str) -> None:
    made = name_for(mission)
    assert NewAgent(mission=MISSION, name=made).name == made
    assert len(made) <= NAME_CHARACTERS[1]


def test_names_that_are_taken_are_numbered() -> None:
    assert list(islice(names_after("Lithium"), 3)) == ["Lithium", "Lithium 2", "Lithium 3"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (10, "10 seconds"),
        (60, "minute"),
        (300, "5 minutes"),
        (5400, "90 minutes"),
        (3600, "hour"),
        (172_800, "2 days"),
    ],
)
def test_an_interval_is_told_in_its_largest_unit(seconds: int, words: str) -> None:
    assert in_words(seconds) == words


def test_six_prompts_differ_and_each_names_the_mission_and_the_agent() -> None:
    prompts = vars(default_prompts(MISSION, "Lithium", 300))
    assert len(set(prompts.values())) == 6
    for prompt in prompts.values():
        assert MISSION in prompt
        assert "Lithium" in prompt
        assert 3 <= prompt.count("\n\n") <= 7


@pytest.mark.parametrize(
    ("phase", "demands"),
    [
        ("observer", ["5 minutes", "query", "insight", "Two to four", "both lists empty", "UUIDs"]),
        ("knowledge_acquisition", ["Markdown", "address", "date", "objective"]),
        ("graph_construction", ["summary", "quote", "sourceUrl", "JSON Schema"]),
        ("analysis_generation", ["observation", "pattern", "[node:uuid]", "missing", "write none"]),
        ("advice_generation", ["rare exception", "BUY, SELL or HOLD", "AgentAnalysis nodes alone"]),
        ("conversation", ["queryGraph", "[node:uuid]", "AgentAdvice"]),
    ],
)
def test_each_prompt_makes_its_demands(phase: str, demands: list[str]) -> None:
    prompt = vars(default_prompts(MISSION, "Lithium", 300))[phase]
    assert [demand for demand in demands if demand not in prompt] == []
    # The words are fixed: older names of the same things have no place in them.
    assert not any(word in prompt for word in ("AgentInsight", "spark", "synthesizer", "classif"))
