"""Agent names derived from missions."""

from itertools import islice

import pytest

from services.api.resources.agents.commands import NewAgent, name_from_mission
from shared.agents.agents import NAME_CHARACTERS, names_after

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
def test_a_name_consists_of_words_of_the_mission(mission: str, name: str) -> None:
    assert name_from_mission(mission) == name


@pytest.mark.parametrize(
    "mission", ["//////////", "¿¿¿¿¿¿¿¿¿¿", "日本の電池メーカーを見守る仕事", "a" * 4000]
)
def test_every_mission_yields_a_valid_name(mission: str) -> None:
    name = name_from_mission(mission)
    assert NewAgent(mission=MISSION, name=name).name == name
    assert len(name) <= NAME_CHARACTERS[1]


def test_names_already_in_use_are_numbered() -> None:
    assert list(islice(names_after("Lithium"), 3)) == ["Lithium", "Lithium 2", "Lithium 3"]
