"""What the model answers when it configures an agent: name, prompts, types.

Strict answers cannot hold schemas of any form, so each property comes as its name, type, description and example.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from shared.agents import agents
from shared.agents import configuration as agent_configuration
from shared.enums import PROMPTED, Phase
from shared.graph import types
from shared.graph.system_types import ABOUT
from shared.graph.validation import Validators
from shared.tools import Json, ToolRefusalError
from shared.tools.schemas import MAX_ITEMS

NAME_WORDS: Final = (2, 4)
"""What the model is asked for; a name of one word will do."""
SHORTEST_PROMPT_CHARACTERS: Final = 200
"""Less guides nobody."""


class Shape(BaseModel):
    # No defaults and nothing extra: strict JSON Schemas demand it. They know no lengths either, so those are checked
    # by validators of our own, which do not show in the schema.
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


def _name(text: str) -> str:
    name = agents.checked(text)
    fewest, most = NAME_WORDS
    if (count := len(name.split())) > most:
        raise ValueError(f"{name!r} has {count} words; give {fewest} to {most}")
    return name


Prompt = Annotated[
    str, AfterValidator(partial(agent_configuration.checked, shortest=SHORTEST_PROMPT_CHARACTERS))
]


class AgentConfiguration(Shape):
    name: Annotated[str, AfterValidator(_name)] = Field(
        description="Short and memorable, 2 to 4 words, in the language of the mission"
    )
    conversation_system_prompt: Prompt = Field(description="For speaking with the owner")
    observer_system_prompt: Prompt = Field(description="For planning each iteration")
    knowledge_acquisition_system_prompt: Prompt = Field(description="For searching the web")
    graph_construction_system_prompt: Prompt = Field(
        description="For writing what was found into the graph"
    )
    analysis_generation_system_prompt: Prompt = Field(
        description="For drawing conclusions from the graph"
    )
    advice_generation_system_prompt: Prompt = Field(
        description="For recommending, as a rare exception"
    )

    @property
    def prompts(self) -> dict[Phase, str]:
        return {phase: getattr(self, f"{phase}_system_prompt") for phase in PROMPTED}

    @model_validator(mode="after")
    def _all_differ(self) -> Self:
        if len(set(self.prompts.values())) < len(PROMPTED):
            raise ValueError("two system prompts are the same; write each for its own phase")
        return self


NODE_TYPES: Final = (6, 12)
EDGE_TYPES: Final = (6, 15)
"""What the model is asked for. Fewer do, down to one: a small graph that fits is better than no agent."""
MOST_PROPERTIES: Final = 12
MOST_VALUES: Final = 20
"""Of an enumeration or a list."""
MOST_NAME_CHARACTERS: Final = 64

_SUMMARY: Final[Json] = {"type": "string", "description": "One sentence on what this is."}
_FURTHER: Final[Json] = {
    "type": ["string", "number", "boolean"],
    "description": "Further facts and figures by their label, with the unit in it.",
}
"""What a source states beside the properties that were foreseen is not lost."""

PropertyKind = Literal["string", "number", "integer", "boolean", "date", "list"]
_SCHEMAS: Final[dict[PropertyKind, Json]] = {
    "string": {"type": "string"},
    "number": {"type": "number"},
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "list": {"type": "array", "items": {"type": "string"}},
}


class Property(Shape):
    synonyms: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("key", "property", "title"), "name"),
        **dict.fromkeys(("kind", "datatype", "valuetype"), "type"),
        **dict.fromkeys(("values", "enumvalues", "options", "allowed"), "enum"),
        **dict.fromkeys(("isrequired", "mandatory"), "required"),
        **dict.fromkeys(("examplevalue", "sample"), "example"),
    }

    name: str = Field(description="In camelCase, with the unit where it is a figure: revenueUsd")
    type: PropertyKind = Field(description="`date` is YYYY-MM-DD, `list` a list of strings")
    description: str = Field(description="What it says, of when, and in which unit")
    required: bool = Field(description="Only where every source that names such a thing states it")
    enum: Annotated[list[str], Field(json_schema_extra={MAX_ITEMS: MOST_VALUES})] | None = Field(
        description="All values it may have, where it is a string and these are few; else null"
    )
    example: (
        str
        | int
        | float
        | bool
        | Annotated[list[str], Field(json_schema_extra={MAX_ITEMS: MOST_VALUES})]
    ) = Field(description="A value it could have")

    @property
    def json_schema(self) -> Json:
        allowed = {"enum": self.enum} if self.enum and self.type == "string" else {}
        return {**_SCHEMAS[self.type], **allowed, "description": self.description}


class NewNodeType(Shape):
    synonyms: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("type", "nodetype", "title"), "name"),
        **dict.fromkeys(("summary", "example"), "example_summary"),
        **dict.fromkeys(("attributes", "fields"), "properties"),
    }

    name: str = Field(description='A capitalised singular noun without blanks: "TradeDeal"')
    description: str = Field(description="What nodes of this type are, in one sentence")
    example_summary: str = Field(description="One sentence on a node that could be of this type")
    properties: list[Property] = Field(
        description="What sources state of such nodes",
        json_schema_extra={MAX_ITEMS: MOST_PROPERTIES},
    )

    @property
    def json_schema(self) -> Json:
        return _schema(self.properties, {"summary": _SUMMARY}, ["summary"])

    @property
    def example(self) -> Json:
        return _examples(self.properties) | {"summary": self.example_summary}


class NewEdgeType(Shape):
    synonyms: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("type", "edgetype", "relation", "title"), "name"),
        **dict.fromkeys(("source", "sources", "from", "sourcetype"), "source_types"),
        **dict.fromkeys(("target", "targets", "to", "targettype"), "target_types"),
        **dict.fromkeys(("attributes", "fields"), "properties"),
    }

    name: str = Field(description='A verb in snake_case, read from source to target: "supplies"')
    description: str = Field(description="What such an edge says of its two nodes, in one sentence")
    source_types: list[str] = Field(
        description="Names of the node types that it starts from",
        json_schema_extra={MAX_ITEMS: NODE_TYPES[1]},
    )
    target_types: list[str] = Field(
        description="Names of the node types that it leads to",
        json_schema_extra={MAX_ITEMS: NODE_TYPES[1]},
    )
    properties: list[Property] = Field(
        description="Mostly none", json_schema_extra={MAX_ITEMS: MOST_PROPERTIES}
    )

    @property
    def json_schema(self) -> Json:
        return _schema(self.properties, {}, [])

    @property
    def example(self) -> Json:
        return _examples(self.properties)


class AgentTypes(Shape):
    synonyms: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("nodes", "entities", "entitytypes"), "node_types"),
        **dict.fromkeys(("edges", "relations", "relationships", "relationtypes"), "edge_types"),
    }

    node_types: list[NewNodeType] = Field(
        description=f"{NODE_TYPES[0]} to {NODE_TYPES[1]} types, no more",
        json_schema_extra={MAX_ITEMS: NODE_TYPES[1]},
    )
    edge_types: list[NewEdgeType] = Field(
        description=f"{EDGE_TYPES[0]} to {EDGE_TYPES[1]} types, no more",
        json_schema_extra={MAX_ITEMS: EDGE_TYPES[1]},
    )

    @model_validator(mode="after")
    def _fit(self) -> Self:
        """Tells all that is wrong at once: the model is asked to correct it once."""
        if found := list(dict.fromkeys(self._faults())):
            raise ValueError("; ".join(found))
        return self

    @classmethod
    def type_faults(cls, each: NewNodeType | NewEdgeType) -> list[str]:
        """All that is wrong with one type, but for the node types that it joins."""
        return list(_type_faults(each, Validators()))

    def _faults(self) -> Iterator[str]:
        names = [each.name for each in self.node_types]
        yield from _count_faults("node types", names, NODE_TYPES)
        yield from _count_faults("edge types", [each.name for each in self.edge_types], EDGE_TYPES)
        validators = Validators()
        every: list[NewNodeType | NewEdgeType] = [*self.node_types, *self.edge_types]
        for each in every:
            yield from _type_faults(each, validators)
        for edge_type in self.edge_types:
            yield from _end_faults(edge_type, names)


def _schema(properties: Sequence[Property], common: Json, required: list[str]) -> Json:
    own = [each for each in properties if each.name not in common]
    return {
        "type": "object",
        "properties": common | {each.name: each.json_schema for each in own},
        "required": [*required, *(each.name for each in own if each.required)],
        "additionalProperties": _FURTHER,
    }


def _examples(properties: Sequence[Property]) -> dict[str, Any]:
    return {each.name: each.example for each in properties}


def _count_faults(what: str, names: Sequence[str], wanted: tuple[int, int]) -> Iterator[str]:
    fewest, most = wanted
    if not 1 <= len(names) <= most:
        yield f"there are {len(names)} {what}; give {fewest} to {most}"
    for name, count in Counter(name.lower() for name in names).items():
        if count > 1:
            yield f"{count} {what} are called {name}; give each a name of its own"


def _type_faults(given: NewNodeType | NewEdgeType, validators: Validators) -> Iterator[str]:
    try:
        if isinstance(given, NewNodeType):
            types.refuse_node_type_name(given.name)
        else:
            types.refuse_edge_type_name(given.name)
        types.folded_description(given.description)
        types.refuse_bad_properties(validators, given.name, given.json_schema, given.example)
    except ToolRefusalError as refusal:
        yield f"{given.name}: {refusal}"
    if given.name == ABOUT:
        yield f"{ABOUT}: every agent has this edge type already; leave it out"
    yield from (f"{given.name}: {fault}" for fault in _property_faults(given.properties))


def _property_faults(properties: Sequence[Property]) -> Iterator[str]:
    if len(properties) > MOST_PROPERTIES:
        yield f"{len(properties)} properties are too many; keep the {MOST_PROPERTIES} that matter"
    for name, count in Counter(each.name for each in properties).items():
        if not (name.isprintable() and 1 <= len(name.strip()) <= MOST_NAME_CHARACTERS):
            yield f"{name!r} is no name of a property; give one of 1 to {MOST_NAME_CHARACTERS} letters"
        if count > 1:
            yield f"{count} properties are called {name}"
    for each in properties:
        if not each.description.strip():
            yield f"{each.name} has no description; say what it is, and in which unit"


def _end_faults(edge_type: NewEdgeType, node_types: Sequence[str]) -> Iterator[str]:
    ends = (("sourceTypes", edge_type.source_types), ("targetTypes", edge_type.target_types))
    for end, named in ends:
        if not named:
            yield f"{edge_type.name}: {end} is empty; name the node types"
        for name in dict.fromkeys(each for each in named if each not in node_types):
            yield f"{edge_type.name}: {end} names {name}, which is none of your node types"
