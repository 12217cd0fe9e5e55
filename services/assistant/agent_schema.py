"""Schemas of the model's answers when it configures an agent: name, prompts, types.

Strict JSON schemas cannot contain arbitrary schemas, so each property is described by its name,
type, description and example.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from shared.agents import agents
from shared.agents import configuration as agent_configuration
from shared.enums import PROMPTED_PHASES, Phase
from shared.graph import types
from shared.graph.system_types import ABOUT_TYPE
from shared.graph.validation import Validators
from shared.tools import Json, ToolRefusalError
from shared.tools.schemas import MAX_ITEMS

NAME_WORDS: Final = (2, 4)
"""What the model is asked for. A single word is accepted."""
MIN_PROMPT_CHARS: Final = 200
"""Shorter prompts are useless."""


class StrictModel(BaseModel):
    # No defaults and no extra fields, as strict JSON schemas require. Lengths are not supported
    # either, so validators check them, which do not appear in the schema.
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


def _name(text: str) -> str:
    name = agents.validate_name(text)
    min_words, max_words = NAME_WORDS
    if (count := len(name.split())) > max_words:
        raise ValueError(f"{name!r} has {count} words; give {min_words} to {max_words}")
    return name


Prompt = Annotated[
    str, AfterValidator(partial(agent_configuration.validate_prompt, shortest=MIN_PROMPT_CHARS))
]


class AgentConfiguration(StrictModel):
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
        return {phase: getattr(self, f"{phase}_system_prompt") for phase in PROMPTED_PHASES}

    @model_validator(mode="after")
    def _all_differ(self) -> Self:
        if len(set(self.prompts.values())) < len(PROMPTED_PHASES):
            raise ValueError("two system prompts are the same; write each for its own phase")
        return self


NODE_TYPES: Final = (6, 12)
EDGE_TYPES: Final = (6, 15)
"""What the model is asked for.

Down to one is accepted: a small graph that fits is better than no agent.
"""
MAX_PROPERTIES: Final = 12
MAX_VALUES: Final = 20
"""Of an enumeration or a list."""
MAX_PROPERTY_NAME_CHARS: Final = 64

_SUMMARY: Final[Json] = {"type": "string", "description": "One sentence on what this is."}
_ADDITIONAL: Final[Json] = {
    "type": ["string", "number", "boolean"],
    "description": "Further facts and figures by their label, with the unit in it.",
}
"""Facts beside the declared properties are stored under their label."""

PropertyKind = Literal["string", "number", "integer", "boolean", "date", "list"]
_SCHEMAS: Final[dict[PropertyKind, Json]] = {
    "string": {"type": "string"},
    "number": {"type": "number"},
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "list": {"type": "array", "items": {"type": "string"}},
}


class Property(StrictModel):
    synonyms: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("key", "property", "title"), "name"),
        **dict.fromkeys(("kind", "datatype", "valuetype"), "type"),
        **dict.fromkeys(("values", "enumvalues", "options", "allowed"), "enum"),
        **dict.fromkeys(("examplevalue", "sample"), "example"),
    }

    name: str = Field(description="In camelCase, with the unit where it is a figure: revenueUsd")
    type: PropertyKind = Field(description="`date` is YYYY-MM-DD, `list` a list of strings")
    description: str = Field(description="What it says, of when, and in which unit")
    enum: Annotated[list[str], Field(json_schema_extra={MAX_ITEMS: MAX_VALUES})] | None = Field(
        description="All values it may have, where it is a string and these are few; else null"
    )
    example: (
        str
        | int
        | float
        | bool
        | Annotated[list[str], Field(json_schema_extra={MAX_ITEMS: MAX_VALUES})]
    ) = Field(description="A value it could have")

    @property
    def json_schema(self) -> Json:
        enum_schema = {"enum": self.enum} if self.enum and self.type == "string" else {}
        return {**_SCHEMAS[self.type], **enum_schema, "description": self.description}


class NewNodeType(StrictModel):
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
        json_schema_extra={MAX_ITEMS: MAX_PROPERTIES},
    )

    @property
    def json_schema(self) -> Json:
        return _schema(self.properties, {"summary": _SUMMARY}, ["summary"])

    @property
    def example(self) -> Json:
        return _examples(self.properties) | {"summary": self.example_summary}


class NewEdgeType(StrictModel):
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
        description="Mostly none", json_schema_extra={MAX_ITEMS: MAX_PROPERTIES}
    )

    @property
    def json_schema(self) -> Json:
        return _schema(self.properties, {}, [])

    @property
    def example(self) -> Json:
        return _examples(self.properties)


class AgentTypes(StrictModel):
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
        """Reports all faults at once, because the model is asked for a correction only once."""
        if faults := list(dict.fromkeys(self._faults())):
            raise ValueError("; ".join(faults))
        return self

    @classmethod
    def type_faults(cls, new_type: NewNodeType | NewEdgeType) -> list[str]:
        """Returns all faults of one type, except for the node types that it joins."""
        return list(_type_faults(new_type, Validators()))

    def _faults(self) -> Iterator[str]:
        names = [node_type.name for node_type in self.node_types]
        yield from _count_faults("node types", names, NODE_TYPES)
        yield from _count_faults(
            "edge types", [edge_type.name for edge_type in self.edge_types], EDGE_TYPES
        )
        validators = Validators()
        all_types: list[NewNodeType | NewEdgeType] = [*self.node_types, *self.edge_types]
        for item in all_types:
            yield from _type_faults(item, validators)
        for edge_type in self.edge_types:
            yield from _end_faults(edge_type, names)


def _schema(properties: Sequence[Property], common: Json, required: list[str]) -> Json:
    own = [prop for prop in properties if prop.name not in common]
    return {
        "type": "object",
        "properties": common | {item.name: item.json_schema for item in own},
        # A node must be writable with whatever its pages say, so nothing else is required.
        "required": required,
        "additionalProperties": _ADDITIONAL,
    }


def _examples(properties: Sequence[Property]) -> dict[str, Any]:
    return {prop.name: prop.example for prop in properties}


def _count_faults(noun: str, names: Sequence[str], bounds: tuple[int, int]) -> Iterator[str]:
    minimum, maximum = bounds
    if not 1 <= len(names) <= maximum:
        yield f"there are {len(names)} {noun}; give {minimum} to {maximum}"
    for name, count in Counter(name.lower() for name in names).items():
        if count > 1:
            yield f"{count} {noun} are called {name}; give each a name of its own"


def _type_faults(new_type: NewNodeType | NewEdgeType, validators: Validators) -> Iterator[str]:
    try:
        if isinstance(new_type, NewNodeType):
            types.refuse_node_type_name(new_type.name)
        else:
            types.refuse_edge_type_name(new_type.name)
        types.normalize_description(new_type.description)
        types.refuse_bad_properties(
            validators, new_type.name, new_type.json_schema, new_type.example
        )
    except ToolRefusalError as refusal:
        yield f"{new_type.name}: {refusal}"
    if new_type.name == ABOUT_TYPE:
        yield f"{ABOUT_TYPE}: every agent has this edge type already; leave it out"
    yield from (f"{new_type.name}: {fault}" for fault in _property_faults(new_type.properties))


def _property_faults(properties: Sequence[Property]) -> Iterator[str]:
    if len(properties) > MAX_PROPERTIES:
        yield f"{len(properties)} properties are too many; keep the {MAX_PROPERTIES} that matter"
    for name, count in Counter(prop.name for prop in properties).items():
        if not (name.isprintable() and 1 <= len(name.strip()) <= MAX_PROPERTY_NAME_CHARS):
            yield f"{name!r} is not a valid property name; use 1 to {MAX_PROPERTY_NAME_CHARS} letters"
        if count > 1:
            yield f"{count} properties are called {name}"
    for prop in properties:
        if not prop.description.strip():
            yield f"{prop.name} has no description; say what it is, and in which unit"


def _end_faults(edge_type: NewEdgeType, node_types: Sequence[str]) -> Iterator[str]:
    ends = (("sourceTypes", edge_type.source_types), ("targetTypes", edge_type.target_types))
    for end, names in ends:
        if not names:
            yield f"{edge_type.name}: {end} is empty; name the node types"
        for name in dict.fromkeys(item for item in names if item not in node_types):
            yield f"{edge_type.name}: {end} names {name}, which is none of your node types"
