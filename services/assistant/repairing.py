"""Repairs what a weak model answers when it configures an agent, so that only nonsense fails. Pure.

Every repair is noted. What fits already comes back equal, without a note. Raises ValueError, which the model is told,
where there is nothing to repair: no prompt at all, or no node type.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from services.assistant import built_in
from services.assistant.agent_schema import (
    EDGE_TYPES,
    MOST_NAME_CHARACTERS,
    MOST_PROPERTIES,
    NAME_WORDS,
    NODE_TYPES,
    SHORTEST_PROMPT_CHARACTERS,
    AgentConfiguration,
    AgentTypes,
    NewEdgeType,
    NewNodeType,
    PropertyKind,
)
from shared.agents import agents
from shared.agents.configuration import LONGEST_PROMPT_CHARACTERS
from shared.enums import PROMPTED
from shared.graph import types
from shared.graph.system_types import ABOUT
from shared.graph.validation import one_line
from shared.llm.repair import Repairs, cut_list, cut_text, fitted, folded
from shared.tools import Json

NewType = TypeVar("NewType", NewNodeType, NewEdgeType)

FEWEST_EDGE_TYPES: Final = 3
"""Of fewer a graph is hardly one: edge types that any field has are added up to here."""
_DESCRIPTION_CHARACTERS: Final = 500
_SHRUNK_CHARACTERS: Final = 160
_SHRUNK_VALUES: Final = 20
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
_LONGEST_INITIALS: Final = 5
"""GPU and CEO are names of types as they stand; COMPANIES is Companies in capitals."""
_PASCAL_CASE: Final = re.compile(rf"[A-Z][A-Za-z0-9]{{0,{types.MAX_CHARACTERS - 1}}}")
_NUMBER: Final = re.compile(r"[+-]?\d[\d,]*(?:\.\d+)?")


def read_configuration(mission: str, value: Any, repairs: Repairs) -> AgentConfiguration:
    """A name and six prompts; of a phase that has none of at least 200 characters the built-in one."""
    given = fitted(AgentConfiguration, _one_level(value), repairs, salvage=True)
    if not isinstance(given, dict):
        raise ValueError("it is no JSON object with a name and six system prompts")
    prompts: dict[str, str] = {}
    for phase in PROMPTED:
        key = to_camel(f"{phase}_system_prompt")
        prompt = str(given.get(key) or "").strip()
        if len(prompt) < SHORTEST_PROMPT_CHARACTERS:
            repairs.add(f"The {phase} prompt was missing or too short; the built-in one is used.")
        elif prompt in prompts.values():
            repairs.add(f"The {phase} prompt repeated another; the built-in one is used.")
        else:
            prompts[key] = prompt
            if len(prompt) > LONGEST_PROMPT_CHARACTERS:
                prompts[key] = cut_text(prompt, LONGEST_PROMPT_CHARACTERS)
                repairs.add(f"The {phase} prompt was too long and was cut.")
    if not prompts:
        raise ValueError(
            f"none of the six system prompts is there; write each, in {SHORTEST_PROMPT_CHARACTERS} characters or more"
        )
    built = {to_camel(f"{phase}_system_prompt"): built_in.PROMPTS[phase] for phase in PROMPTED}
    name = _agent_name(str(given.get("name") or ""), mission, repairs)
    return AgentConfiguration.model_validate({"name": name, **built, **prompts})


def read_types(value: Any, repairs: Repairs) -> AgentTypes:
    """Node and edge types with names, properties and ends that hold; what cannot be repaired of them is left out."""
    given = fitted(AgentTypes, value, repairs, salvage=True)
    if not isinstance(given, dict):
        raise ValueError("it is no JSON object with nodeTypes and edgeTypes")
    called: dict[str, str] = {}
    nodes = _node_types(given["nodeTypes"], called, repairs)
    if not nodes:
        raise ValueError(f"there is no usable node type; give {NODE_TYPES[0]} to {NODE_TYPES[1]}")
    edges = _edge_types(given["edgeTypes"], called, [each.name for each in nodes], repairs)
    for what, count, (fewest, _) in (
        ("node types", len(nodes), NODE_TYPES),
        ("edge types", len(edges), EDGE_TYPES),
    ):
        if count < fewest:
            repairs.add(f"There are {count} {what} in place of at least {fewest}; that is enough.")
    return AgentTypes(node_types=nodes, edge_types=edges)


def _one_level(value: Any) -> Any:
    """A configuration whose prompts stand in an object or list of their own, all on one level."""
    if isinstance(value, list) and len(value) == 1:
        [value] = value
    if not isinstance(value, dict):
        return value
    flat: Json = {}
    for key, inner in value.items():
        if isinstance(inner, list) and all(isinstance(each, dict) for each in inner):
            inner = dict(pair for each in inner if (pair := _named_prompt(each)))
        if isinstance(inner, dict) and _field_of(key) is None:
            flat = {**{_field_of(name) or name: text for name, text in inner.items()}, **flat}
        else:
            flat[_field_of(key) or key] = inner
    every = dict.fromkeys((to_camel(f"{phase}_system_prompt") for phase in PROMPTED), "")
    return {"name": "", **every, **flat}


def _named_prompt(given: Json) -> tuple[str, Any] | None:
    by_key = {folded(key): each for key, each in given.items()}
    phase = next((by_key[key] for key in ("phase", "name", "actor", "role") if key in by_key), None)
    prompt = next(
        (by_key[key] for key in ("prompt", "systemprompt", "content", "text") if key in by_key),
        None,
    )
    return None if phase is None or prompt is None else (str(phase), prompt)


def _field_of(key: str) -> str | None:
    """The prompt that a key means by its phase: observer, observerPrompt."""
    for phase in PROMPTED:
        name = to_camel(f"{phase}_system_prompt")
        if folded(key) in (folded(name), folded(phase), folded(f"{phase}prompt")):
            return name
    return None


def _agent_name(given: str, mission: str, repairs: Repairs) -> str:
    words = re.sub(r"[/\\\x00-\x1f\"“”]+", " ", given).split()
    if len(words) > NAME_WORDS[1]:
        words = words[: NAME_WORDS[1]]
    try:
        name = agents.checked(cut_text(" ".join(words), agents.NAME_CHARACTERS[1]))
    except ValueError:
        name = built_in.name_of(mission)
    if name != " ".join(given.split()):
        repairs.add(f"The name {cut_text(given, 100)!r} was made {name!r}.")
    return name


def _node_types(
    given: Sequence[Json], called: dict[str, str], repairs: Repairs
) -> list[NewNodeType]:
    """Fills `called` with the names that they go by now, by what they were called."""
    reserved = {_same(each) for each in types.RESERVED_TYPES}
    made: dict[str, Json] = {}
    for each in given:
        written = str(each.get("name") or "")
        name = _type_name(written, _pascal_case, "node type", repairs)
        if name is None or _same(name) in reserved:
            if name is not None:
                repairs.add(f"The node type {name} is the system's own and was left out.")
            continue
        called.setdefault(_same(written), name)
        if (first := made.get(_same(name))) is not None:
            repairs.add(f"The node type {name} came twice and was made one.")
            first["properties"] = [*first["properties"], *each["properties"]]
            called[_same(written)] = first["name"]
            continue
        made[_same(name)] = {**each, "name": name, "properties": list(each["properties"])}
    kept = cut_list(list(made.values()), NODE_TYPES[1], "node types", repairs)
    usable = [_usable(NewNodeType, _described(each, repairs), repairs) for each in kept]
    fitting = [each for each in usable if each is not None]
    there = {each.name for each in fitting}
    for old in [old for old, name in called.items() if name not in there]:
        del called[old]
    return fitting


def _edge_types(
    given: Sequence[Json], called: Mapping[str, str], node_types: Sequence[str], repairs: Repairs
) -> list[NewEdgeType]:
    made: dict[str, Json] = {}
    for each in given:
        name = _type_name(str(each.get("name") or ""), _snake_case, "edge type", repairs)
        if name is None or _same(name) == _same(ABOUT):
            if name is not None:
                repairs.add(f"Every agent has the edge type {ABOUT}; it was left out.")
            continue
        ends = {
            end: _ends(each[end], called, node_types, f"{name}.{end}", repairs)
            for end in ("sourceTypes", "targetTypes")
        }
        if (first := made.get(_same(name))) is not None:
            repairs.add(f"The edge type {name} came twice and was made one.")
            for end, named in ends.items():
                first[end] = list(dict.fromkeys([*first[end], *named]))
            first["properties"] = [*first["properties"], *each["properties"]]
            continue
        made[_same(name)] = {
            **each,
            **ends,
            "name": name,
            "properties": list(each["properties"]),
        }
    kept = cut_list(list(made.values()), EDGE_TYPES[1], "edge types", repairs)
    usable = [_usable(NewEdgeType, _described(each, repairs), repairs) for each in kept]
    types = [each for each in usable if each is not None]
    return [*types, *_common_edges(types, node_types, repairs)]


def _common_edges(
    types: Sequence[NewEdgeType], node_types: Sequence[str], repairs: Repairs
) -> list[NewEdgeType]:
    there = {_same(each.name) for each in types}
    common = [
        each
        for each in built_in.common_edges(node_types, FEWEST_EDGE_TYPES)
        if _same(each.name) not in there
    ][: max(0, FEWEST_EDGE_TYPES - len(types))]
    if common:
        added = ", ".join(each.name for each in common)
        repairs.add(f"There were {len(types)} edge types; {added} were added.")
    return common


def _type_name(
    written: str, spelled: Callable[[str], str], what: str, repairs: Repairs
) -> str | None:
    """`written` as types are called; None where there is no letter in it."""
    name = spelled(written)
    if not name:
        repairs.add(f"A {what} without a usable name was left out: {cut_text(written, 60)!r}.")
        return None
    if name != written:
        repairs.add(f"The {what} {cut_text(written, 60)!r} was called {name}.")
    return name


def _pascal_case(text: str) -> str:
    is_shouted = text.isupper() and len(text) > _LONGEST_INITIALS
    if _PASCAL_CASE.fullmatch(text) and not is_shouted:
        return text
    parts = _parts(text)
    return "".join(part[:1].upper() + part[1:] for part in parts)[: types.MAX_CHARACTERS]


def _snake_case(text: str) -> str:
    if re.fullmatch(r"[a-z][a-z0-9_]*", text) and len(text) <= types.MAX_CHARACTERS:
        return text
    return "_".join(_parts(text))[: types.MAX_CHARACTERS].rstrip("_")


def _parts(text: str) -> list[str]:
    """The words of a name in small letters of ASCII, from the first that begins with a letter."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    parts = [part.lower() for part in _WORDS.findall(plain)]
    first = next((place for place, part in enumerate(parts) if part[0].isalpha()), len(parts))
    return parts[first:]


def _same(name: str) -> str:
    return types.folded(re.sub(r"[^A-Za-z0-9]", "", name))


def _ends(
    given: Sequence[str],
    called: Mapping[str, str],
    node_types: Sequence[str],
    where: str,
    repairs: Repairs,
) -> list[str]:
    """The node types that are meant; all of them where none is."""
    meant: dict[str, None] = {}
    for text in given:
        names_in = (
            [text] if _same(text) in called else re.split(r"\s*(?:[,;/|]|\bor\b|\band\b)\s*", text)
        )
        for name in names_in:
            if name in node_types:
                meant[name] = None
            elif (known := called.get(_same(name))) is not None:
                repairs.add(f"{where}: {cut_text(name, 60)!r} was read as {known}.")
                meant[known] = None
            elif _same(name) in _ANY:
                repairs.add(f"{where}: {cut_text(name, 60)!r} was read as all node types.")
                meant |= dict.fromkeys(node_types)
            else:
                repairs.add(f"{where}: {cut_text(name, 60)!r} is no node type and was left out.")
    if not meant:
        repairs.add(f"{where} named no node type; all of them are taken.")
        return list(node_types)
    return list(meant)


def _described(each: Json, repairs: Repairs) -> Json:
    """A type with a description, and properties that hold."""
    name = each["name"]
    description = one_line(str(each.get("description") or ""))
    if not description:
        description = f"{_in_words(name).capitalize()}, as the mission speaks of it."
        repairs.add(f"{name} had no description.")
    if len(description) > _DESCRIPTION_CHARACTERS:
        description = cut_text(description, _DESCRIPTION_CHARACTERS)
        repairs.add(f"The description of {name} was too long and was cut.")
    else:
        description = each["description"] if each.get("description", "").strip() else description
    fit = {**each, "description": description, "properties": _properties(each, repairs)}
    if "sourceTypes" not in each and not str(each.get("exampleSummary") or "").strip():
        fit["exampleSummary"] = f"This is an example of {_in_words(name)}."
    return fit


def _properties(of: Json, repairs: Repairs) -> list[Json]:
    made: dict[str, Json] = {}
    for each in of["properties"]:
        written = str(each.get("name") or "")
        name = _property_name(written)
        if not name:
            repairs.add(f"A property of {of['name']} without a usable name was left out.")
            continue
        if name != written:
            repairs.add(f"{of['name']}: the property {cut_text(written, 60)!r} was called {name}.")
        if name in made:
            repairs.add(f"{of['name']}: the property {name} came twice.")
            continue
        made[name] = _property({**each, "name": name}, f"{of['name']}.{name}", repairs)
    what = f"properties of {of['name']}"
    return cut_list(list(made.values()), MOST_PROPERTIES, what, repairs)


def _property_name(text: str) -> str:
    """A label as sources write it ("Installed capacity") is a name too; all else is spelled in camelCase."""
    is_label = text.isprintable() and text[:1].isalpha() and len(text) <= MOST_NAME_CHARACTERS
    if is_label and (" " in text.strip() or text.isalnum()):
        return text.strip()
    parts = [part.lower() for part in _WORDS.findall(text)]
    first = next((place for place, part in enumerate(parts) if part[0].isalpha()), len(parts))
    parts = parts[first:]
    return "".join([*parts[:1], *(part.capitalize() for part in parts[1:])])[:MOST_NAME_CHARACTERS]


def _property(each: Json, where: str, repairs: Repairs) -> Json:
    kind = _kind(each.get("type") or _type_of(each.get("example")))
    if not each.get("type"):
        repairs.add(f"{where} had no type; it is a {kind}.")
    elif kind != each["type"]:
        repairs.add(f"{where}: the type {cut_text(str(each['type']), 60)!r} was read as {kind}.")
    allowed = each.get("enum")
    if not isinstance(allowed, list) or not allowed:
        allowed = None
    description = each.get("description") or ""
    if not description.strip():
        description = f"{_in_words(each['name']).capitalize()}."
    made = {**each, "type": kind, "enum": allowed, "description": description}
    example = _example(kind, allowed, each.get("example"), each["name"])
    if example != each.get("example") or type(example) is not type(each.get("example")):
        repairs.add(f"{where}: an example that fits its type was put in.")
    return {**made, "example": example}


def _kind(given: Any) -> PropertyKind:
    if isinstance(given, list):
        given = next((each for each in given if each not in (None, "null")), "")
    text = str(given or "")
    if text.rstrip().endswith("[]"):
        return "list"
    return _KINDS.get(folded(text), "string")


def _type_of(example: Any) -> str:
    """The kind of a property that says none, by its example."""
    kinds: tuple[PropertyKind, ...] = ("boolean", "integer", "number", "list")
    return next((kind for kind in kinds if _is_of(kind, example)), "string")


def _example(kind: PropertyKind, allowed: Sequence[str] | None, given: Any, name: str) -> Any:
    """`given` where it is of this kind, else what can be read of it as such, else any value of the kind."""
    if _is_of(kind, given) and (kind != "string" or not allowed or given in allowed):
        return given
    text = "" if given is None or isinstance(given, dict | list) else str(given).strip()
    number = _NUMBER.search(text)
    match kind:
        case "string":
            return allowed[0] if allowed else text or _in_words(name)
        case "number":
            return float(number[0].replace(",", "")) if number else 1.5
        case "integer":
            return int(float(number[0].replace(",", ""))) if number and len(number[0]) < 20 else 1
        case "boolean":
            return text.lower() not in ("false", "no", "0")
        case "date":
            return f"{text}-01-01" if re.fullmatch(r"\d{4}", text) else _DATE
        case "list":
            items = given if isinstance(given, list) else [text]
            return [str(each) for each in items if str(each).strip()] or [_in_words(name)]


def _is_of(kind: PropertyKind, value: Any) -> bool:
    match kind:
        case "string" | "date":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "integer":
            whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            return whole and not isinstance(value, bool)
        case "list":
            return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _usable(shape: type[NewType], given: Json, repairs: Repairs) -> NewType | None:
    """The type, its properties in few words where they are too long; None where it cannot be stored whatever is done."""
    for attempt in (given, _shrunk(given)):
        try:
            made = shape.model_validate(attempt)
        except ValidationError:
            continue
        if not AgentTypes.type_faults(made):
            if attempt is not given:
                repairs.add(f"{given['name']}: its properties were too long and were cut.")
            return made
    repairs.add(f"The type {given['name']} could not be used and was left out.")
    return None


def _shrunk(given: Json) -> Json:
    return {**given, "properties": [_shrunk_property(each) for each in given["properties"]]}


def _shrunk_property(each: Json) -> Json:
    allowed = each["enum"]
    if allowed is not None:
        allowed = [cut_text(value, _SHRUNK_CHARACTERS) for value in allowed[:_SHRUNK_VALUES]]
    return {
        **each,
        "enum": allowed,
        "description": cut_text(each["description"], _SHRUNK_CHARACTERS),
        "example": _example(each["type"], allowed, None, each["name"]),
    }


def _in_words(name: str) -> str:
    return " ".join(_words(name)) or name


def _words(name: str) -> Iterable[str]:
    return (part if part.isupper() else part.lower() for part in _WORDS.findall(name))
