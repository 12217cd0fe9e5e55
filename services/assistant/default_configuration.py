"""The default configuration, for missions that the model gives nothing usable for: `default_configuration.toml`."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from services.assistant.agent_schema import (
    AgentConfiguration,
    AgentTypes,
    NewEdgeType,
    NewNodeType,
)
from shared.agents import agents
from shared.database.text import storable
from shared.enums import PROMPTED_PHASES, Phase

_DEFAULTS: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
PROMPTS: Final[Mapping[Phase, str]] = {
    Phase(phase): prompt for phase, prompt in _DEFAULTS["prompts"].items()
}

_FILLER: Final = re.compile(
    "a|an|the|and|or|of|for|in|on|at|to|from|with|by|about|into|between|among|their|its|our|your|that|which|who|what|how|"
    "why|when|where|is|are|find|watch|track|monitor|follow|observe|look|tell|show|learn|know|identify|any|all|every|"
    "short|long|term|new",
    re.IGNORECASE,
)
_NAME_WORDS: Final = 3


def name_from_mission(mission: str) -> str:
    """Returns a name of the first significant words of `mission`."""
    words = re.findall(r"[^\W_]+", storable(mission))
    significant = [word for word in words if not _FILLER.fullmatch(word)] or words
    name_words = [
        word if word[:1].isupper() else word.capitalize() for word in significant[:_NAME_WORDS]
    ]
    name = " ".join([*name_words, "Watch"])
    try:
        return agents.validate_name(name)
    except ValueError:
        return "Mission Watch"


def default_configuration(mission: str) -> AgentConfiguration:
    """Returns a name and the prompts of all six phases."""
    prompts = {f"{phase}_system_prompt": PROMPTS[phase] for phase in PROMPTED_PHASES}
    return AgentConfiguration.model_validate({"name": name_from_mission(mission), **prompts})


_NODE_TYPES: Final = [
    NewNodeType.model_validate(
        {**each, "properties": [{"enum": None, **one} for one in each["properties"]]}
    )
    for each in _DEFAULTS["node_types"]
]
_NAMES: Final = [node_type.name for node_type in _NODE_TYPES]
_EDGE_TYPES: Final = [
    NewEdgeType.model_validate(
        {"source_types": _NAMES, "target_types": _NAMES, "properties": [], **each}
    )
    for each in _DEFAULTS["edge_types"]
]


def default_types() -> AgentTypes:
    """Returns types of elements and relations that occur in every field."""
    return AgentTypes(node_types=list(_NODE_TYPES), edge_types=list(_EDGE_TYPES))


def common_edges(node_types: Sequence[str], count: int) -> list[NewEdgeType]:
    """Returns the first `count` edge types that can join any two nodes, between all of `node_types`."""
    general_types = [
        edge_type for edge_type in _EDGE_TYPES if len(edge_type.source_types) == len(_NAMES)
    ]
    return [
        item.model_copy(update={"source_types": list(node_types), "target_types": list(node_types)})
        for item in general_types[:count]
    ]
