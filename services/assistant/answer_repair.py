"""Repairs the answers of weak models when they configure an agent, so that only nonsense fails.
Pure.

Every repair is recorded. An answer that fits comes back equal, without a record. Raises ValueError,
whose message the model gets, where nothing can be repaired: no prompt at all, or no node type.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from services.assistant import default_configuration
from services.assistant.agent_schema import (
    EDGE_TYPES,
    MAX_PROPERTIES,
    MAX_PROPERTY_NAME_CHARS,
    MIN_PROMPT_CHARS,
    NAME_WORDS,
    NODE_TYPES,
    AgentConfiguration,
    AgentTypes,
    NewEdgeType,
    NewNodeType,
    PropertyKind,
)
from shared.agents import agents
from shared.agents.configuration import MAX_PROMPT_CHARS
from shared.enums import PROMPTED_PHASES
from shared.graph import types
from shared.graph.system_types import ABOUT_TYPE
from shared.graph.validation import one_line
from shared.llm.repair import Repairs, cut_list, cut_text, fit_to_schema, normalize_key
from shared.tools import Json

NewType = TypeVar("NewType", NewNodeType, NewEdgeType)

MIN_EDGE_TYPES: Final = 3
"""With fewer edge types, general ones are added up to this number."""
_DESCRIPTION_CHARACTERS: Final = 500
_SHORT_CHARS: Final = 160
_SHORT_VALUES: Final = 20
_DATE: Final = "2026-01-31"
_ANY: Final = frozenset({"any", "all", "every", "anything", "node", "nodes", ""})
_KINDS: Final[Mapping[str, PropertyKind]] = {
    **dict.fromkeys(("string", "str", "text", "url", "uri", "enum", "object"), "string"),
    **dict.fromkeys(("number", "float", "double", "decimal", "numeric", "real"), "number"),
    **dict.fromkeys(("money", "currency", "percent", "percentage"), "number"),
    **dict.fromkeys(("integer", "int", "count", "year", "long"), "integer"),
    **dict.fromkeys(("boolean", "bool"), "boolean"),
    **dict.fromkeys(("date", "datetime", "timestamp"), "date"),
    **dict.fromkeys(("list", "array", "strings", "liststring", "liststr"), "list"),
    **dict.fromkeys(("arraystring", "listofstrings", "arrayofstrings", "set"), "list"),
}
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_MAX_INITIALS: Final = 5
"""Type names of up to this many capitals stay as they are (GPU, CEO); longer ones are converted (COMPANIES)."""
_PASCAL_CASE: Final = re.compile(rf"[A-Z][A-Za-z0-9]{{0,{types.MAX_TYPE_NAME_CHARS - 1}}}")
_NUMBER: Final = re.compile(r"[+-]?\d[\d,]*(?:\.\d+)?")


def repair_configuration(mission: str, value: Any, repairs: Repairs) -> AgentConfiguration:
    """Returns a name and six prompts. Phases without a usable prompt get the default one."""
    answer = fit_to_schema(AgentConfiguration, _flatten(value), repairs, salvage=True)
    if not isinstance(answer, dict):
        raise ValueError("it is not a JSON object with a name and six system prompts")
    prompts: dict[str, str] = {}
    lengths: dict[str, int] = {}
    for phase in PROMPTED_PHASES:
        key = to_camel(f"{phase}_system_prompt")
        prompt = str(answer.get(key) or "").strip()
        lengths[key] = len(prompt)
        if len(prompt) < MIN_PROMPT_CHARS:
            repairs.add(f"The {phase} prompt was missing or too short; the built-in one is used.")
        elif prompt in prompts.values():
            repairs.add(f"The {phase} prompt repeated another; the built-in one is used.")
        else:
            prompts[key] = prompt
            if len(prompt) > MAX_PROMPT_CHARS:
                prompts[key] = cut_text(prompt, MAX_PROMPT_CHARS)
                repairs.add(f"The {phase} prompt was too long and was cut.")
    if not prompts:
        listed = ", ".join(f"{key} {length}" for key, length in lengths.items())
        raise ValueError(
            f"none of the six system prompts has the {MIN_PROMPT_CHARS} characters that each needs; they have: {listed}"
        )
    built = {
        to_camel(f"{phase}_system_prompt"): default_configuration.PROMPTS[phase]
        for phase in PROMPTED_PHASES
    }
    name = _agent_name(str(answer.get("name") or ""), mission, repairs)
    return AgentConfiguration.model_validate({"name": name, **built, **prompts})


def repair_types(value: Any, repairs: Repairs) -> AgentTypes:
    """Returns node and edge types with valid names, properties and ends.

    Leaves out what cannot be repaired.
    """
    answer = fit_to_schema(AgentTypes, value, repairs, salvage=True)
    if not isinstance(answer, dict):
        raise ValueError("it is not a JSON object with nodeTypes and edgeTypes")
    final_names: dict[str, str] = {}
    nodes = _node_types(answer["nodeTypes"], final_names, repairs)
    if not nodes:
        raise ValueError(f"there is no usable node type; give {NODE_TYPES[0]} to {NODE_TYPES[1]}")
    edges = _edge_types(answer["edgeTypes"], final_names, [node.name for node in nodes], repairs)
    for noun, count, (minimum, _) in (
        ("node types", len(nodes), NODE_TYPES),
        ("edge types", len(edges), EDGE_TYPES),
    ):
        if count < minimum:
            repairs.add(f"There are {count} {noun} instead of at least {minimum}; that is enough.")
    return AgentTypes(node_types=nodes, edge_types=edges)


def _flatten(value: Any) -> Any:
    """Flattens a configuration whose prompts are nested in an object or a list."""
    if isinstance(value, list) and len(value) == 1:
        [value] = value
    if not isinstance(value, dict):
        return value
    flat: Json = {}
    for key, field_value in value.items():
        if isinstance(field_value, list) and all(isinstance(item, dict) for item in field_value):
            field_value = dict(pair for row in field_value if (pair := _named_prompt(row)))
        if isinstance(field_value, dict) and _field_of(key) is None:
            flat = {**{_field_of(name) or name: text for name, text in field_value.items()}, **flat}
        else:
            flat[_field_of(key) or key] = field_value
    empty_prompts = dict.fromkeys(
        (to_camel(f"{phase}_system_prompt") for phase in PROMPTED_PHASES), ""
    )
    return {"name": "", **empty_prompts, **flat}


def _named_prompt(entry: Json) -> tuple[str, Any] | None:
    by_key = {normalize_key(key): item for key, item in entry.items()}
    phase = next(
        (by_key[key] for key in ("phase", "name", "service", "role") if key in by_key), None
    )
    prompt = next(
        (by_key[key] for key in ("prompt", "systemprompt", "content", "text") if key in by_key),
        None,
    )
    return None if phase is None or prompt is None else (str(phase), prompt)


def _field_of(key: str) -> str | None:
    """Returns the prompt field that a key names by its phase, such as observer or observerPrompt."""
    for phase in PROMPTED_PHASES:
        name = to_camel(f"{phase}_system_prompt")
        if normalize_key(key) in (
            normalize_key(name),
            normalize_key(phase),
            normalize_key(f"{phase}prompt"),
        ):
            return name
    return None


def _agent_name(text: str, mission: str, repairs: Repairs) -> str:
    words = re.sub(r"[/\\\x00-\x1f\"“”]+", " ", text).split()
    if len(words) > NAME_WORDS[1]:
        words = words[: NAME_WORDS[1]]
    try:
        name = agents.validate_name(cut_text(" ".join(words), agents.NAME_CHARACTERS[1]))
    except ValueError:
        name = default_configuration.name_from_mission(mission)
    if name != " ".join(text.split()):
        repairs.add(f"The name {cut_text(text, 100)!r} was changed to {name!r}.")
    return name


def _node_types(
    new_types: Sequence[Json], final_names: dict[str, str], repairs: Repairs
) -> list[NewNodeType]:
    """Repairs node types. Fills `final_names` with the final name by the folded name in the answer."""
    reserved = {_folded_name(reserved_type) for reserved_type in types.RESERVED_TYPES}
    by_name: dict[str, Json] = {}
    for item in new_types:
        original = str(item.get("name") or "")
        name = _type_name(original, _pascal_case, "node type", repairs)
        if name is None or _folded_name(name) in reserved:
            if name is not None:
                repairs.add(f"The node type {name} is reserved and was left out.")
            continue
        final_names.setdefault(_folded_name(original), name)
        if (first := by_name.get(_folded_name(name))) is not None:
            repairs.add(f"The node type {name} was defined twice; the definitions were merged.")
            first["properties"] = [*first["properties"], *item["properties"]]
            final_names[_folded_name(original)] = first["name"]
            continue
        by_name[_folded_name(name)] = {**item, "name": name, "properties": list(item["properties"])}
    limited = cut_list(list(by_name.values()), NODE_TYPES[1], "node types", repairs)
    usable = [
        _validated_type(NewNodeType, _with_description(row, repairs), repairs) for row in limited
    ]
    fitting = [element for element in usable if element is not None]
    usable_names = {entry.name for entry in fitting}
    for old in [old for old, name in final_names.items() if name not in usable_names]:
        del final_names[old]
    return fitting


def _edge_types(
    new_types: Sequence[Json],
    final_names: Mapping[str, str],
    node_types: Sequence[str],
    repairs: Repairs,
) -> list[NewEdgeType]:
    by_name: dict[str, Json] = {}
    for item in new_types:
        name = _type_name(str(item.get("name") or ""), _snake_case, "edge type", repairs)
        if name is None or _folded_name(name) == _folded_name(ABOUT_TYPE):
            if name is not None:
                repairs.add(f"Every agent has the edge type {ABOUT_TYPE}; it was left out.")
            continue
        ends = {
            end: _ends(item[end], final_names, node_types, f"{name}.{end}", repairs)
            for end in ("sourceTypes", "targetTypes")
        }
        if (first := by_name.get(_folded_name(name))) is not None:
            repairs.add(f"The edge type {name} was defined twice; the definitions were merged.")
            for end, node_types_of_end in ends.items():
                first[end] = list(dict.fromkeys([*first[end], *node_types_of_end]))
            first["properties"] = [*first["properties"], *item["properties"]]
            continue
        by_name[_folded_name(name)] = {
            **item,
            **ends,
            "name": name,
            "properties": list(item["properties"]),
        }
    limited = cut_list(list(by_name.values()), EDGE_TYPES[1], "edge types", repairs)
    usable = [
        _validated_type(NewEdgeType, _with_description(row, repairs), repairs) for row in limited
    ]
    types = [element for element in usable if element is not None]
    return [*types, *_common_edges(types, node_types, repairs)]


def _common_edges(
    types: Sequence[NewEdgeType], node_types: Sequence[str], repairs: Repairs
) -> list[NewEdgeType]:
    present_names = {_folded_name(item.name) for item in types}
    common = [
        common_edge
        for common_edge in default_configuration.common_edges(node_types, MIN_EDGE_TYPES)
        if _folded_name(common_edge.name) not in present_names
    ][: max(0, MIN_EDGE_TYPES - len(types))]
    if common:
        names = ", ".join(row.name for row in common)
        repairs.add(f"There were {len(types)} edge types; {names} were added.")
    return common


def _type_name(text: str, spelled: Callable[[str], str], noun: str, repairs: Repairs) -> str | None:
    """Returns `text` in the spelling of type names; None where it has no letter."""
    name = spelled(text)
    if not name:
        repairs.add(f"A {noun} without a usable name was left out: {cut_text(text, 60)!r}.")
        return None
    if name != text:
        repairs.add(f"The {noun} {cut_text(text, 60)!r} was renamed {name}.")
    return name


def _pascal_case(text: str) -> str:
    is_shouted = text.isupper() and len(text) > _MAX_INITIALS
    if _PASCAL_CASE.fullmatch(text) and not is_shouted:
        return text
    parts = _parts(text)
    return "".join(part[:1].upper() + part[1:] for part in parts)[: types.MAX_TYPE_NAME_CHARS]


def _snake_case(text: str) -> str:
    if re.fullmatch(r"[a-z][a-z0-9_]*", text) and len(text) <= types.MAX_TYPE_NAME_CHARS:
        return text
    return "_".join(_parts(text))[: types.MAX_TYPE_NAME_CHARS].rstrip("_")


def _parts(text: str) -> list[str]:
    """Returns the words of a name in ASCII lower case, from the first that begins with a letter."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    parts = [part.lower() for part in _WORDS.findall(plain)]
    first = next((place for place, part in enumerate(parts) if part[0].isalpha()), len(parts))
    return parts[first:]


def _folded_name(name: str) -> str:
    return types.fold_type_name(re.sub(r"[^A-Za-z0-9]", "", name))


def _ends(
    names: Sequence[str],
    final_names: Mapping[str, str],
    node_types: Sequence[str],
    where: str,
    repairs: Repairs,
) -> list[str]:
    """Returns the node types that are named; all of them where none is."""
    selection: dict[str, None] = {}
    for text in names:
        names_in = (
            [text]
            if _folded_name(text) in final_names
            else re.split(r"\s*(?:[,;/|]|\bor\b|\band\b)\s*", text)
        )
        for name in names_in:
            if name in node_types:
                selection[name] = None
            elif (final_name := final_names.get(_folded_name(name))) is not None:
                repairs.add(f"{where}: {cut_text(name, 60)!r} was read as {final_name}.")
                selection[final_name] = None
            elif _folded_name(name) in _ANY:
                repairs.add(f"{where}: {cut_text(name, 60)!r} was read as all node types.")
                selection |= dict.fromkeys(node_types)
            else:
                repairs.add(f"{where}: {cut_text(name, 60)!r} is not a node type and was left out.")
    if not selection:
        repairs.add(f"{where} named no node type; all node types are used.")
        return list(node_types)
    return list(selection)


def _with_description(new_type: Json, repairs: Repairs) -> Json:
    """Returns the type with a description and valid properties."""
    name = new_type["name"]
    description = one_line(str(new_type.get("description") or ""))
    if not description:
        description = f"{_in_words(name).capitalize()}, as the mission uses the term."
        repairs.add(f"{name} had no description.")
    if len(description) > _DESCRIPTION_CHARACTERS:
        description = cut_text(description, _DESCRIPTION_CHARACTERS)
        repairs.add(f"The description of {name} was too long and was cut.")
    else:
        description = (
            new_type["description"] if new_type.get("description", "").strip() else description
        )
    fit = {**new_type, "description": description, "properties": _properties(new_type, repairs)}
    if "sourceTypes" not in new_type and not str(new_type.get("exampleSummary") or "").strip():
        fit["exampleSummary"] = f"This is an example of {_in_words(name)}."
    return fit


def _properties(new_type: Json, repairs: Repairs) -> list[Json]:
    by_name: dict[str, Json] = {}
    for prop in new_type["properties"]:
        original = str(prop.get("name") or "")
        name = _property_name(original)
        if not name:
            repairs.add(f"A property of {new_type['name']} without a usable name was left out.")
            continue
        if name != original:
            repairs.add(
                f"{new_type['name']}: the property {cut_text(original, 60)!r} was renamed {name}."
            )
        if name in by_name:
            repairs.add(f"{new_type['name']}: the property {name} was defined twice.")
            continue
        by_name[name] = _property({**prop, "name": name}, f"{new_type['name']}.{name}", repairs)
    label = f"properties of {new_type['name']}"
    return cut_list(list(by_name.values()), MAX_PROPERTIES, label, repairs)


def _property_name(text: str) -> str:
    """Returns a valid property name.

    Labels as sources write them ("Installed capacity") are valid; others become camelCase.
    """
    is_label = text.isprintable() and text[:1].isalpha() and len(text) <= MAX_PROPERTY_NAME_CHARS
    if is_label and (" " in text.strip() or text.isalnum()):
        return text.strip()
    parts = [part.lower() for part in _WORDS.findall(text)]
    first = next((place for place, part in enumerate(parts) if part[0].isalpha()), len(parts))
    parts = parts[first:]
    return "".join([*parts[:1], *(part.capitalize() for part in parts[1:])])[
        :MAX_PROPERTY_NAME_CHARS
    ]


def _property(prop: Json, where: str, repairs: Repairs) -> Json:
    kind = _kind(prop.get("type") or _infer_kind(prop.get("example")))
    if not prop.get("type"):
        repairs.add(f"{where} had no type; it is a {kind}.")
    elif kind != prop["type"]:
        repairs.add(f"{where}: the type {cut_text(str(prop['type']), 60)!r} was read as {kind}.")
    enum = prop.get("enum")
    if not isinstance(enum, list) or not enum:
        enum = None
    description = prop.get("description") or ""
    if not description.strip():
        description = f"{_in_words(prop['name']).capitalize()}."
    repaired = {**prop, "type": kind, "enum": enum, "description": description}
    example = _example(kind, enum, prop.get("example"), prop["name"])
    if example != prop.get("example") or type(example) is not type(prop.get("example")):
        repairs.add(f"{where}: an example that fits its type was added.")
    return {**repaired, "example": example}


def _kind(value: Any) -> PropertyKind:
    if isinstance(value, list):
        value = next((item for item in value if item not in (None, "null")), "")
    text = str(value or "")
    if text.rstrip().endswith("[]"):
        return "list"
    return _KINDS.get(normalize_key(text), "string")


def _infer_kind(example: Any) -> str:
    """Infers the kind of a property from its example."""
    kinds: tuple[PropertyKind, ...] = ("boolean", "integer", "number", "list")
    return next((kind for kind in kinds if _has_kind(kind, example)), "string")


def _example(kind: PropertyKind, enum: Sequence[str] | None, value: Any, name: str) -> Any:
    """Returns `value` as a value of the kind; a default example if it does not fit."""
    if _has_kind(kind, value) and (kind != "string" or not enum or value in enum):
        return value
    text = "" if value is None or isinstance(value, dict | list) else str(value).strip()
    number = _NUMBER.search(text)
    match kind:
        case "string":
            return enum[0] if enum else text or _in_words(name)
        case "number":
            return float(number[0].replace(",", "")) if number else 1.5
        case "integer":
            return int(float(number[0].replace(",", ""))) if number and len(number[0]) < 20 else 1
        case "boolean":
            return text.lower() not in ("false", "no", "0")
        case "date":
            return f"{text}-01-01" if re.fullmatch(r"\d{4}", text) else _DATE
        case "list":
            items = value if isinstance(value, list) else [text]
            return [str(item) for item in items if str(item).strip()] or [_in_words(name)]


def _has_kind(kind: PropertyKind, value: Any) -> bool:
    match kind:
        case "string" | "date":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "integer":
            is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            return is_whole and not isinstance(value, bool)
        case "list":
            return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _validated_type(shape: type[NewType], new_type: Json, repairs: Repairs) -> NewType | None:
    """Returns the validated type, shortened where it is too long; None where it is invalid all the same."""
    for attempt in (new_type, _shortened(new_type)):
        try:
            validated = shape.model_validate(attempt)
        except ValidationError:
            continue
        if not AgentTypes.type_faults(validated):
            if attempt is not new_type:
                repairs.add(f"{new_type['name']}: its properties were too long and were cut.")
            return validated
    repairs.add(f"The type {new_type['name']} could not be used and was left out.")
    return None


def _shortened(new_type: Json) -> Json:
    return {
        **new_type,
        "properties": [_shortened_property(prop) for prop in new_type["properties"]],
    }


def _shortened_property(prop: Json) -> Json:
    enum = prop["enum"]
    if enum is not None:
        enum = [cut_text(value, _SHORT_CHARS) for value in enum[:_SHORT_VALUES]]
    return {
        **prop,
        "enum": enum,
        "description": cut_text(prop["description"], _SHORT_CHARS),
        "example": _example(prop["type"], enum, None, prop["name"]),
    }


def _in_words(name: str) -> str:
    parts = _WORDS.findall(name)
    return " ".join(part if part.isupper() else part.lower() for part in parts) or name
