"""Node and edge types: those that the corpus would give, some from the mission's own words, and the usual ones."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sandbox.reader.answer import Answer
from sandbox.reader.configure.foreseen import Foreseen, Search, foresee
from sandbox.reader.construct.kinds import DESCRIPTIONS
from sandbox.reader.construct.relations import LOCATED_IN, MENTIONED_WITH, PART_OF, description_of
from sandbox.reader.graph_view import OWN_TYPES
from sandbox.reader.request import ChatRequest
from sandbox.text.english import is_plural, shortened, singular
from sandbox.text.subject import subject_of
from sandbox.text.words import WORD

MAX_NODE_TYPES = 12
MAX_EDGE_TYPES = 15
MAX_OF_MISSION = 3
MAX_FIGURES = 5
MAX_TEXT_CHARS = 200
MAX_LABEL_CHARS = 60
MAX_TYPE_CHARS = 40
GENERAL_EDGES = (MENTIONED_WITH, LOCATED_IN, PART_OF, "produces", "supplies", "partners_with")
Json = dict[str, Any]


def choose_types(request: ChatRequest, search: Search) -> Answer:
    """Six to twelve of nodes and as many or more of edges, whatever the mission and the corpus."""
    mission = request.mission
    foreseen = foresee(mission, search)
    described: dict[str, str] = {}
    for name, description in _node_types(mission, foreseen):
        if name.lower() not in {*map(str.lower, described), *map(str.lower, OWN_TYPES)}:
            described[name] = description
    names = list(described)[:MAX_NODE_TYPES]
    edges = list(dict.fromkeys([*_by_count(foreseen.edges), *GENERAL_EDGES]))[:MAX_EDGE_TYPES]
    kept = list(dict.fromkeys([*edges[: MAX_EDGE_TYPES - len(GENERAL_EDGES)], *GENERAL_EDGES]))
    chosen = {
        "nodeTypes": [_node_type(name, described[name], foreseen) for name in names],
        "edgeTypes": [_edge_type(name, foreseen, names) for name in kept],
    }
    return Answer(json.dumps(chosen, ensure_ascii=False))


def _node_types(mission: str, foreseen: Foreseen) -> Iterator[tuple[str, str]]:
    """Names with descriptions: the usual kinds have room, whatever else there is."""
    room = MAX_NODE_TYPES - len(DESCRIPTIONS) - MAX_OF_MISSION
    found = [kind for kind in _by_count(foreseen.kinds) if kind not in DESCRIPTIONS]
    for kind in found[:room]:
        yield kind, foreseen.descriptions[kind]
    yield from DESCRIPTIONS.items()
    yield from list(_of_mission(mission))[:MAX_OF_MISSION]
    yield "Event", "Something that happened, or is to happen, at a time that sources give."


def _of_mission(mission: str) -> Iterator[tuple[str, str]]:
    """`battery makers` gives the type BatteryMaker."""
    for term in subject_of(mission).terms():
        words = [word for word in WORD.findall(term.removeprefix("the ")) if word.isascii()]
        if words and not words[-1][:1].isupper():
            last = singular(words[-1]) if is_plural(words[-1]) else words[-1].capitalize()
            name = "".join([*(word.capitalize() for word in words[:-1]), last])
            if name.isalnum() and name[:1].isalpha() and len(name) <= MAX_TYPE_CHARS:
                yield name, f"What the mission calls “{term}”: one that sources tell apart."


def _node_type(name: str, description: str, foreseen: Foreseen) -> Json:
    sample = foreseen.samples.get(name)
    summary = str(sample.properties.get("summary", "")) if sample else ""
    labels = _by_count(foreseen.figures.get(name, {}))
    usable = [label for label in labels if len(label) <= MAX_LABEL_CHARS][:MAX_FIGURES]
    return {
        "name": name,
        "description": shortened(description, MAX_TEXT_CHARS),
        "exampleSummary": shortened(summary, MAX_TEXT_CHARS) or f"A {name} that a source names.",
        "properties": [_figure(label, foreseen.figure_samples[label]) for label in usable],
    }


def _figure(label: str, example: str) -> Json:
    return _text(label, f"As sources state it under “{label}”, with unit and period.", example)


def _edge_type(name: str, foreseen: Foreseen, node_types: Sequence[str]) -> Json:
    """General relations may join anything; the others what they were seen to join."""
    every = list(node_types)
    sources, targets = foreseen.ends.get(name, (set(), set()))
    described = foreseen.descriptions.get(name) or description_of(name)
    is_general = name in GENERAL_EDGES or name not in foreseen.ends
    beside = _text(
        "figure", "What the source states beside the target, with its unit.", "27% (2023)"
    )
    return {
        "name": name,
        "description": shortened(described, MAX_TEXT_CHARS),
        "sourceTypes": every
        if is_general
        else [each for each in every if each in sources] or every,
        "targetTypes": every
        if is_general
        else [each for each in every if each in targets] or every,
        "properties": [beside],
    }


def _text(name: str, description: str, example: str) -> Json:
    return {
        "name": name,
        "type": "string",
        "description": description,
        "required": False,
        "enum": None,
        "example": example,
    }


def _by_count(counted: Mapping[str, int]) -> list[str]:
    return sorted(counted, key=lambda name: (-counted[name], name))
