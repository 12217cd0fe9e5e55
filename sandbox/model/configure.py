"""The configuration phase: a name and prompts with the mission's words, and the node and edge types of fact sheets."""

import json
from collections.abc import Sequence
from typing import Any, Final

from sandbox.model.request import Answer, ChatRequest
from sandbox.model.sheets import COUNTRY, FIGURES, PROMPTS, RELATIONS, TYPES
from sandbox.text.missions import parse_mission
from sandbox.text.tokens import join_with_and, shorten

TYPES_SCHEMA: Final = "agent_types"
MAX_NAME_WORDS: Final = 4
MAX_NAME_CHARS: Final = 40
MAX_SUBJECT_CHARS: Final = 200


def configure(request: ChatRequest) -> Answer:
    """Answer with the agent's types if the schema is theirs, else with its name and prompts."""
    wants_types = request.schema_name == TYPES_SCHEMA
    content = _types() if wants_types else _name_and_prompts(request.mission)
    return Answer(json.dumps(content, ensure_ascii=False))


def _name_and_prompts(mission: str) -> dict[str, str]:
    terms = parse_mission(mission).terms
    subject = shorten(join_with_and(terms) or " ".join(mission.split()), MAX_SUBJECT_CHARS)
    prompts = {
        f"{phase}SystemPrompt": prompt.format(subject=subject) for phase, prompt in PROMPTS.items()
    }
    return {"name": agent_name(terms), **prompts}


def agent_name(terms: Sequence[str]) -> str:
    """An agent's name: two to four words of the mission's terms, as far as they fit."""
    selection: list[str] = []
    for word in dict.fromkeys(
        word[:1].upper() + word[1:] for term in terms for word in term.split()
    ):
        if len(" ".join([*selection, word])) <= MAX_NAME_CHARS:
            selection.append(word)
    if len(selection) < 2:
        selection = [*(selection or ["Sandbox"]), "Watch"]
    return " ".join(selection[:MAX_NAME_WORDS])


def _types() -> dict[str, Any]:
    figures = [
        _text_property(label, f"“{label}” as a fact sheet states it, with its unit.", example)
        for label, example in FIGURES.items()
    ]
    beside = _text_property("figure", "The figure that the list gives for the target.", "27%")
    return {
        "nodeTypes": [
            {
                "name": name,
                "description": description,
                "exampleSummary": "A fact sheet has figures on it.",
                "properties": figures if name == COUNTRY else [],
            }
            for name, description in TYPES.items()
        ],
        "edgeTypes": [
            {
                "name": name,
                "description": f"The source {relation.words} the target, as a fact sheet lists it.",
                "sourceTypes": list(TYPES),
                "targetTypes": [relation.target_type] if relation.target_type else list(TYPES),
                "properties": [beside],
            }
            for name, relation in RELATIONS.items()
        ],
    }


def _text_property(name: str, description: str, example: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "string",
        "description": description,
        "enum": None,
        "example": example,
    }
