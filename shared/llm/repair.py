"""Repairs the JSON of weak models: broken syntax, misspelled keys, values of a similar type.

Pure and deterministic: the same text gives the same value and notes, so that a resumed run sends the same requests and
does not pay for them again. A value that needs no repair is returned unchanged, without a note.
"""

import json
import re
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    SupportsIndex,
    TypeVar,
    Union,
    get_args,
    get_origin,
)
from uuid import UUID

from json_repair import repair_json
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from shared.database.text import storable
from shared.llm.messages import THOUGHTS

T = TypeVar("T")

MAX_NOTES: Final = 40
"""Notes about one answer. A last note counts the further repairs."""
_MAX_NOTE_CHARS: Final = 300
_MAX_DEPTH: Final = 40
_ACCESSES_PER_CHAR: Final = 30
_MAX_ACCESSES: Final = 2_000_000
"""Character accesses for the repair of a text, about one second. Crafted texts take quadratic time."""

_BRACKET: Final = re.compile(r"[{\[]")
_FENCED: Final = re.compile(r"```[A-Za-z0-9_+-]*[ \t]*\n?(.*?)(?:```|\Z)", re.DOTALL)
_NOT_WORD: Final = re.compile(r"[^0-9a-z]+")
_SIGNS: Final = re.compile(r"[^\w\s-]")
_BULLET: Final = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_NODE_CITATION: Final = re.compile(
    r"^\[?\s*(?:node|edge|request|id)\s*:\s*(.*?)\s*\]?$", re.IGNORECASE
)
_WRAPPERS: Final = frozenset({"arguments", "parameters", "args", "params", "input", "kwargs"})
_WRAPPER_SIBLINGS: Final = frozenset({"name", "tool", "toolname", "function", "type", "id"})
_MAX_WRAPPER_KEYS: Final = 16
"""Maximum keys of an object that is checked for being a wrapper. A hostile object can have very many."""
_NULL_WORDS: Final = frozenset({"", "null", "none", "n/a", "undefined"})


class UnreadableError(ValueError):
    """A text contains no usable JSON."""


@dataclass
class Repairs:
    """Notes about what was changed, one sentence each, without duplicates."""

    notes: list[str] = field(default_factory=list)
    _left_out: int = 0

    def add(self, note: str) -> None:
        note = cut_text(storable(note), _MAX_NOTE_CHARS)
        if note in self.notes:
            return
        if len(self.notes) < MAX_NOTES:
            self.notes.append(note)
        else:
            self._left_out += 1

    @property
    def all_notes(self) -> list[str]:
        """The notes as they are recorded."""
        more = [f"And {self._left_out} more repairs."] if self._left_out else []
        return [*self.notes, *more]

    def __len__(self) -> int:
        return len(self.notes) + self._left_out


def read_json(text: str, repairs: Repairs, *, is_cut: bool = False) -> Any:
    """Parses the JSON value in `text`, even if it is broken, in a code fence or between sentences.

    A decimal number is a WrittenNumber, of which `fit_to_schema` makes a float.

    `is_cut` says that the server truncated the answer at its token limit. Then an incomplete end is dropped. Raises
    UnreadableError if nothing can be parsed, or not with limited effort.
    """
    bare = text.strip()
    try:
        value = json.loads(
            bare, parse_float=WrittenNumber, parse_constant=partial(_no_constant, repairs)
        )
    except (ValueError, RecursionError) as error:
        is_cut = is_cut or str(error).startswith("Unterminated string")
    else:
        return _storable(value)
    inner = _unwrap(bare, repairs)
    if (first := _first_object(inner, repairs)) is not None:
        value, is_all = first
        if not is_all:
            repairs.add("Text around the JSON was left out.")
        return _storable(value)
    value = _storable(with_texts(_repair_broken(inner), inner))
    repairs.add("The JSON was broken and was repaired.")
    if is_cut:
        value = _drop_incomplete(value)
        repairs.add("The answer broke off; what was incomplete at its end was left out.")
    return value


def fit_to_schema(shape: type[BaseModel], value: Any, repairs: Repairs, *, salvage: bool) -> Any:
    """Converts `value` to the keys and types of `shape` where this is unambiguous. `shape.model_validate` checks the rest.

    With `salvage` it uses as much as possible: drops unknown keys and items of a wrong type, and makes missing texts empty.
    Without `salvage` unknown keys stay, so that the validation refuses them.
    A `shape` may have `synonyms`: other names of its fields, in lower case without punctuation.
    """
    return plain_numbers(_Fitter(repairs, salvage).object(shape, value, ""))


def cut_text(text: str, limit: int) -> str:
    """Truncates `text` to `limit` characters, at the end of a word if possible."""
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    at = max(head.rfind(" "), head.rfind("\n"))
    return f"{head[:at].rstrip() if at > limit // 2 else head}…"


def cut_list(items: Sequence[T], limit: int, noun: str, repairs: Repairs) -> list[T]:
    """Returns the first `limit` of `items` and notes how many there were."""
    if len(items) > limit:
        repairs.add(f"There were {len(items)} {noun}; the first {limit} are used.")
    return list(items[:limit])


def without_repeats(
    items: Sequence[T], noun: str, repairs: Repairs, key: Callable[[T], Any] = lambda item: item
) -> list[T]:
    """Removes items with a key that an earlier item has."""
    by_key: dict[Any, T] = {}
    for item in items:
        by_key.setdefault(key(item), item)
    if len(by_key) < len(items):
        repairs.add(f"{len(items) - len(by_key)} {noun} repeated others and were left out.")
    return list(by_key.values())


def normalize_key(name: str) -> str:
    """Normalizes `name` to lower case without punctuation: searchHints, search_hints and "Search hints" are equal."""
    return _NOT_WORD.sub("", name.lower())


def bare_id(text: str) -> str:
    """Removes quotes, brackets and prefixes around an id: `[node:ID]`, `"ID"`, `<ID>`."""
    bare = text.strip().strip("\"'`<>").strip()
    cited = _NODE_CITATION.match(bare)
    return (cited[1] if cited else bare.removeprefix("[").removesuffix("]")).strip().strip("\"'`")


def _no_constant(repairs: Repairs, name: str) -> None:
    repairs.add(f"{name} is not a JSON number and was left out.")


def _storable(value: Any) -> Any:
    """Makes `value` storable in PostgreSQL. Raises UnreadableError if it is nested too deeply."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [inner for outer in level for inner in _children(outer)]
        if not level:
            return storable(value)
    raise UnreadableError(f"it is nested more than {_MAX_DEPTH} levels deep; make it flatter")


def _children(value: Any) -> Sequence[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else ()


def _unwrap(text: str, repairs: Repairs) -> str:
    """Removes reasoning before the answer, and a Markdown code fence."""
    answer = THOUGHTS.sub("", text)
    if answer != text:
        repairs.add("The thoughts before the answer were left out.")
    fenced = _FENCED.search(answer)
    first = _BRACKET.search(answer)
    if fenced is None or first is None or fenced.start() > first.start():
        return answer
    if not _BRACKET.match(fenced[1].lstrip()):
        return answer
    repairs.add("The JSON was in a Markdown code block.")
    return fenced[1].strip()


def _first_object(text: str, repairs: Repairs) -> tuple[Any, bool] | None:
    """Returns the JSON value at the first bracket, and whether it is the whole text; None if it is broken."""
    if (bracket := _BRACKET.search(text)) is None:
        return None
    begin = bracket.start()
    try:
        decoder = json.JSONDecoder(
            parse_float=WrittenNumber, parse_constant=partial(_no_constant, repairs)
        )
        value, end = decoder.raw_decode(text, begin)
    except (ValueError, RecursionError):
        return None
    remainder = text[end:].strip()
    if not value or _BRACKET.search(remainder):
        return None
    return value, begin == 0 and not remainder


class _LimitError(Exception):
    pass


class _LimitedStr(str):
    """A string that limits how often its characters are accessed.

    The repair library has no limit of its own. A time limit would make the result depend on the load of the machine.
    """

    accesses_left: int

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        self.accesses_left -= 1
        if self.accesses_left < 0:
            raise _LimitError
        return super().__getitem__(key)


def _repair_broken(text: str) -> Any:
    watched = _LimitedStr(text)
    watched.accesses_left = min(_ACCESSES_PER_CHAR * len(text) + 10_000, _MAX_ACCESSES)
    try:
        value = repair_json(watched, return_objects=True, skip_json_loads=True)
    except (_LimitError, ValueError, RecursionError) as error:
        raise UnreadableError("it is not JSON and cannot be repaired") from error
    if not isinstance(value, dict | list) or not value:
        raise UnreadableError("there is no JSON in it")
    return value


def _drop_incomplete(value: dict[str, Any] | list[Any]) -> Any:
    """Removes the incomplete last part of `value`: the last item of a list with several, or the last key."""
    if isinstance(value, list):
        if len(value) != 1 or not isinstance(value[0], dict | list):
            return value[:-1]
        return [_drop_incomplete(value[0])]
    complete = dict(value)
    if complete:
        last, inner = complete.popitem()
        if isinstance(inner, dict | list):
            complete[last] = _drop_incomplete(inner)
    return complete


@dataclass(frozen=True)
class _Fitter:
    repairs: Repairs
    salvage: bool

    def object(self, shape: type[BaseModel], value: Any, where: str) -> Any:
        value = self._as_object(shape, value, where)
        if not isinstance(value, dict):
            return value
        fields = _fields(shape)
        fit: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        exact_keys = _exact_keys(shape)
        for key, inner in sorted(value.items(), key=lambda item: item[0] not in exact_keys):
            field_of_key = fields.get(normalize_key(key))
            if field_of_key is None or field_of_key[0] in fit:
                extra[key] = inner
                continue
            alias, field_info = field_of_key
            if key not in exact_keys:
                self.repairs.add(f"{_path(where, key)} was read as {alias}.")
            takes_null = field_info.is_required() or _takes_none(field_info.annotation)
            if inner is not None or takes_null:
                fit[alias] = self.value(field_info.annotation, inner, _path(where, alias))
        for key, inner in extra.items():
            if self.salvage or inner in (None, "", [], {}):
                self.repairs.add(f"{_path(where, key)} was not requested and was left out.")
            else:
                fit[key] = inner
        if self.salvage:
            self._fill_missing(shape, fit, where)
        return fit

    def value(self, annotation: Any, value: Any, where: str) -> Any:
        annotation = _plain(annotation)
        origin = get_origin(annotation)
        if origin in (Union, types.UnionType):
            return self._optional(annotation, value, where)
        if origin is Literal:
            return self._one_of(get_args(annotation), value, where)
        if origin in (list, Sequence):
            [item] = get_args(annotation)
            return self._list(item, value, where)
        if origin is dict or annotation is dict:
            return self._mapping(value, where)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return self.object(annotation, value, where)
        return self._scalar(annotation, value, where)

    def _as_object(self, shape: type[BaseModel], value: Any, where: str) -> Any:
        value = self._parsed(value, where)
        fields = _fields(shape)
        if isinstance(value, list):
            objects = [item for item in value if isinstance(item, dict)]
            if objects and (self.salvage or len(value) == 1):
                self.repairs.add(f"{where or 'The answer'} was a list; its objects were joined.")
                value = {key: inner for item in reversed(objects) for key, inner in item.items()}
        if isinstance(value, str) and self.salvage and where and value.strip():
            first = next(iter(shape.model_fields))
            if _plain(shape.model_fields[first].annotation) is str:
                self.repairs.add(f"{where} was a text; it was read as {first}.")
                return {first: value}
        if not isinstance(value, dict) or len(value) > _MAX_WRAPPER_KEYS:
            return value
        for key, inner in value.items():
            if normalize_key(key) in fields or not isinstance(inner, dict | str):
                continue
            other_keys = {normalize_key(other_key) for other_key in value if other_key != key}
            is_wrapper = normalize_key(key) in _WRAPPERS and other_keys <= _WRAPPER_SIBLINGS
            alone = self.salvage and not other_keys and isinstance(inner, dict)
            inside = self._parsed(inner, where) if is_wrapper or alone else None
            if isinstance(inside, dict) and (
                is_wrapper or fields.keys() & {normalize_key(at) for at in inside}
            ):
                self.repairs.add(f"The content of {_path(where, key)} was used directly.")
                return inside
        return value

    def _fill_missing(self, shape: type[BaseModel], fit: dict[str, Any], where: str) -> None:
        for name, field_info in shape.model_fields.items():
            alias = field_info.alias or name
            if not field_info.is_required() or fit.get(alias) is not None:
                continue
            annotation = _plain(field_info.annotation)
            if _takes_none(annotation):
                fit[alias] = None
            elif get_origin(annotation) is list:
                fit[alias] = []
            elif annotation is bool:
                fit[alias] = False
            elif annotation is str:
                self.repairs.add(f"{_path(where, alias)} was missing.")
                fit[alias] = ""

    def _optional(self, annotation: Any, value: Any, where: str) -> Any:
        kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
        takes_none = len(kinds) < len(get_args(annotation))
        if takes_none and (
            value is None or (isinstance(value, str) and value.strip().lower() in _NULL_WORDS)
        ):
            return None
        return self.value(kinds[0], value, where) if len(kinds) == 1 else value

    def _one_of(self, options: Sequence[Any], value: Any, where: str) -> Any:
        if value in options or not isinstance(value, str) or _SIGNS.search(value):
            return value
        matches = [
            option
            for option in options
            if isinstance(option, str) and normalize_key(option) == normalize_key(value)
        ]
        if len(matches) != 1:
            return value
        self.repairs.add(f"{where}: {value!r} was read as {matches[0]!r}.")
        return matches[0]

    def _list(self, item: Any, value: Any, where: str) -> Any:
        items = self._as_list(item, value, where)
        if not isinstance(items, list):
            return items
        fit = [
            self.value(item, element, f"{where}[{place}]") for place, element in enumerate(items)
        ]
        if not self.salvage:
            return fit
        remaining = [element for element in fit if _has_type(item, element)]
        if len(remaining) < len(fit):
            self.repairs.add(
                f"Entries of {where} that could not be read: {len(fit) - len(remaining)}."
            )
        return remaining

    def _as_list(self, item: Any, value: Any, where: str) -> Any:
        plain = _plain(item)
        value = self._parsed(value, where)
        if isinstance(value, list):
            return value
        if value is None or value == "":
            return [] if self.salvage or value == "" else value
        self.repairs.add(f"{where} was not a list; it was made one.")
        if isinstance(value, dict) and isinstance(plain, type) and issubclass(plain, BaseModel):
            is_item = _fields(plain).keys() & {normalize_key(key) for key in value}
            if not is_item and all(isinstance(element, dict) for element in value.values()):
                first = next(iter(plain.model_fields))
                return [{first: key, **element} for key, element in value.items()]
        if isinstance(value, dict) and plain is str:
            return list(value.values())
        if isinstance(value, str) and plain is str and "\n" in value.strip():
            lines = [_BULLET.sub("", line).strip() for line in value.splitlines()]
            return [line for line in lines if line]
        return [value]

    def _mapping(self, value: Any, where: str) -> Any:
        value = self._parsed(value, where)
        if not isinstance(value, list) or not all(isinstance(element, dict) for element in value):
            return value
        pairs: dict[str, Any] = {}
        for element in value:
            by_key = {normalize_key(key): inner for key, inner in element.items()}
            name = by_key.get("name") or by_key.get("key") or by_key.get("property")
            if isinstance(name, str) and "value" in by_key and len(by_key) == 2:
                pairs[name] = by_key["value"]
            elif len(element) == 1:
                pairs |= element
            else:
                return value
        self.repairs.add(f"{where} was a list; it was read as an object.")
        return pairs

    def _scalar(self, annotation: Any, value: Any, where: str) -> Any:
        if annotation is str:
            return self._text(value, where)
        if annotation is UUID and isinstance(value, str):
            return bare_id(value)
        if annotation is int and isinstance(value, WrittenNumber) and not value.is_integer():
            return value.text
        if annotation in (int, float) and isinstance(value, str):
            plain = value.strip().replace(",", "").replace("_", "")
            if plain != value and re.fullmatch(r"[+-]?\d{1,18}(\.\d{1,18})?", plain):
                return plain
        return value

    def _text(self, value: Any, where: str) -> Any:
        if isinstance(value, bool | int | float):
            self.repairs.add(f"{where} was not text; it was converted to text.")
            return value.text if isinstance(value, WrittenNumber) else json.dumps(value)
        if isinstance(value, list) and all(isinstance(element, str) for element in value):
            self.repairs.add(f"{where} was a list; its texts were joined.")
            return "\n\n".join(value)
        if isinstance(value, dict) and self.salvage:
            texts = [text for text in value.values() if isinstance(text, str) and text.strip()]
            self.repairs.add(f"{where} was an object; its texts were joined.")
            return "\n\n".join(texts)
        if self.salvage and not isinstance(value, str):
            self.repairs.add(f"{where} was not text and was left empty.")
            return ""
        return value

    def _parsed(self, value: Any, where: str) -> Any:
        """Parses a string that is JSON itself."""
        if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
            return value
        try:
            inner = read_json(value, Repairs())
        except UnreadableError:
            return value
        if not isinstance(inner, dict | list):
            return value
        self.repairs.add(f"{where or 'The answer'} was JSON inside a string.")
        return inner


@cache
def _fields(shape: type[BaseModel]) -> Mapping[str, tuple[str, FieldInfo]]:
    """Returns, by normalized name, the key of each field of `shape`, and the field."""
    fields = {name: (inner.alias or name, inner) for name, inner in shape.model_fields.items()}
    synonyms: Mapping[str, str] = getattr(shape, "synonyms", {})
    by_synonym = {synonym: fields[name] for synonym, name in synonyms.items()}
    # An alias is the name in camelCase, which is normalized to the same.
    return by_synonym | {normalize_key(name): keyed_field for name, keyed_field in fields.items()}


@cache
def _exact_keys(shape: type[BaseModel]) -> Collection[str | None]:
    fields = shape.model_fields
    return {*fields, *(field_info.alias for field_info in fields.values())}


def _plain(annotation: Any) -> Any:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation


def _takes_none(annotation: Any) -> bool:
    return type(None) in get_args(_plain(annotation))


def _has_type(item: Any, value: Any) -> bool:
    plain = _plain(item)
    if isinstance(plain, type) and issubclass(plain, BaseModel):
        return isinstance(value, dict)
    if plain is str:
        return isinstance(value, str) and bool(value.strip())
    return value is not None


def _path(where: str, key: str) -> str:
    return f"{where}.{key[:60]}" if where else key[:60]


_DECIMAL: Final = re.compile(r"(?<![\w.])-?\d+\.\d+(?![\w.])")
_MARK: Final = "\ue000"
"""A character for private use, which `dump_json` removes."""
_MARKED: Final = re.compile(rf'"{_MARK}([^"{_MARK}]*){_MARK}"')


class WrittenNumber(float):
    """A decimal number that keeps the text that it is parsed from."""

    text: str

    def __new__(cls, text: str) -> "WrittenNumber":
        number = super().__new__(cls, text)
        number.text = text
        return number


def with_texts(value: Any, source: str) -> Any:
    """Adds to the decimal numbers in `value` the texts that they have in `source`, which it was parsed from.

    If that is unknown, because `source` has several texts of one number or none, the text is in exponential notation.
    """
    texts: dict[float, set[str]] = {}
    for text in _DECIMAL.findall(source):
        texts.setdefault(float(text), set()).add(text)
    return _with_texts(value, texts)


def dump_json(value: Any) -> str:
    """Serializes `value` with the text of each WrittenNumber. Other decimal numbers are in exponential notation."""
    text = json.dumps(_marked(value), ensure_ascii=False, default=str)
    return _MARKED.sub(r"\1", text)


def plain_numbers(value: Any) -> Any:
    """Replaces each WrittenNumber by a float."""
    match value:
        case WrittenNumber():
            return float(value)
        case dict():
            return {key: plain_numbers(inner) for key, inner in value.items()}
        case list():
            return [plain_numbers(inner) for inner in value]
        case _:
            return value


def _with_texts(value: Any, texts: dict[float, set[str]]) -> Any:
    match value:
        case WrittenNumber():
            return value
        case float():
            found = texts.get(value, ())
            return WrittenNumber(next(iter(found)) if len(found) == 1 else _exponential(value))
        case dict():
            return {key: _with_texts(inner, texts) for key, inner in value.items()}
        case list():
            return [_with_texts(inner, texts) for inner in value]
        case _:
            return value


def _exponential(value: float) -> str:
    text = repr(value)
    return f"{text}e0" if _DECIMAL.fullmatch(text) else text


def _marked(value: Any) -> Any:
    match value:
        case WrittenNumber():
            return f"{_MARK}{value.text}{_MARK}"
        case float():
            text = _exponential(value)
            return f"{_MARK}{text}{_MARK}" if text != repr(value) else value
        case str():
            return value.replace(_MARK, "")
        case dict():
            return {_marked(key): _marked(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_marked(inner) for inner in value]
        case _:
            return value
