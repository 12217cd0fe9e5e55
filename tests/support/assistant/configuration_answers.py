"""Answers as a model could give them when it configures an agent."""

from typing import Any, Final

from pydantic.alias_generators import to_camel

from shared.enums import PROMPTED_PHASES

Json = dict[str, Any]
NODE_TYPES: Final = ("Maker", "Metal", "Mine", "Plant", "Contract", "Country")
EDGE_TYPES: Final = ("buys", "mines", "supplies", "builds", "located_in", "signs")


def configuration(name: str = "Lithium Eye", **changed: Any) -> Json:
    """A name and six prompts; `changed` by the fields' names."""
    prompts = {
        to_camel(f"{phase}_system_prompt"): f"What good work of {phase} is, at length. " * 10
        for phase in PROMPTED_PHASES
    }
    return {"name": name, **prompts, **changed}


def types(*, nodes: list[Json] | None = None, edges: list[Json] | None = None) -> Json:
    return {
        "nodeTypes": [node_type(name) for name in NODE_TYPES] if nodes is None else nodes,
        "edgeTypes": [edge_type(name) for name in EDGE_TYPES] if edges is None else edges,
    }


def node_type(name: str, **changed: Any) -> Json:
    return {
        "name": name,
        "description": f"A {name} of the trade.",
        "exampleSummary": f"A {name}.",
        "properties": [a_property()],
        **changed,
    }


def edge_type(name: str, **changed: Any) -> Json:
    return {
        "name": name,
        "description": f"The source {name} the target.",
        "sourceTypes": ["Maker"],
        "targetTypes": ["Metal"],
        "properties": [],
        **changed,
    }


def a_property(**changed: Any) -> Json:
    return {
        "name": "outputTonnes",
        "type": "number",
        "description": "What it puts out in a year, in tonnes.",
        "enum": None,
        "example": 1200,
        **changed,
    }
