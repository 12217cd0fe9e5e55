"""Requests to every operation and page of the api: right ones, nearly right ones, and hostile ones.

Each is made of the seed and its number alone, so that one that failed can be made again.
"""

import json
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes
from uuid import UUID

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel

from services.api.web import app as window
from tests.support.attacks.routes import document, routes
from tests.support.attacks.world import Person
from tests.support.hostile import DATES, JSON, NUMBERS, TEXTS, UNSTORABLE

MOST_HEAD_CHARACTERS: Final = 8_000
"""Of one value in the head, which the server holds to 64 KiB in all."""
ENDS_SOMETHING: Final = ("/disable", "/end", "/delete", "/revoke", "/forget", "/discard")
"""Operations after which there would be less to ask about: they are asked about what others have, or what is not there."""
NAMES_OF_OTHERS: Final = ("kept", "merged", "agent")
"""Fields of bodies that name something, and in which something of another user's is tried."""
HEADERS: Final = (
    "Accept", "Accept-Encoding", "Accept-Language", "Cookie", "Content-Type", "HX-Request", "HX-Target", "Host",
    "Idempotency-Key", "If-Match", "If-None-Match", "If-Modified-Since", "Last-Event-ID", "Origin", "Prefer", "Range",
    "Referer", "Sec-Fetch-Site", "Traceparent", "User-Agent", "X-Forwarded-For", "X-Forwarded-Host",
    "X-Forwarded-Proto", "X-HTTP-Method-Override", "X-Request-ID",
)  # fmt: skip
STRANGER: Final = "nobody"
"""What whoever shows nothing is called."""
WEIGHT: Final = {"ordinary": 5, "operator": 4, STRANGER: 1}
ONE_RIGHT_OF: Final = 7
"""One request of so many is right."""
MOST_TARGET_BYTES: Final = 30_000
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD")
NAMES: Final = (*TEXTS, *UNSTORABLE)
SMALL_JSON: Final = tuple(each for each in JSON if len(each) < 10_000)
SCHEMES: Final = ("Bearer", "bearer", "Basic", "Digest", "Negotiate", "")


@dataclass(frozen=True)
class Operation:
    """Of the api's document, or a page of the window, whose body is a form."""

    method: str
    path: str
    queries: Mapping[str, Any] = field(default_factory=dict)
    """JSON Schemas by name."""
    headers: tuple[str, ...] = ()
    body: Any = None
    """A right one, with `{name}` where something is named; None where it takes none."""
    optional: Mapping[str, Any] = field(default_factory=dict)
    """What else the body may have: JSON Schemas by name."""
    is_page: bool = False

    @property
    def ends_something(self) -> bool:
        return self.method == "DELETE" or self.path.endswith(ENDS_SOMETHING)


@dataclass(frozen=True)
class Request:
    number: int
    who: str
    operation: Operation
    method: str
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes | None
    is_plain: bool
    """A right request, as a client sends it: its time counts."""

    @property
    def wire(self) -> bytes:
        lines = [b"%s %s HTTP/1.1" % (self.method.encode(), self.target)]
        lines += [name + b": " + value for name, value in self.headers]
        if self.body is not None:
            lines.append(b"Content-Length: %d" % len(self.body))
        return b"\r\n".join(lines) + b"\r\n\r\n" + (self.body or b"")

    def names(self, secret: str) -> bool:
        """Whether whoever asks has said it, so that an answer may repeat it."""
        return secret.encode() in unquote_to_bytes(self.target) + (self.body or b"")


def operations() -> list[Operation]:
    return [*_of_document(), *_of_pages()]


def _of_document() -> Iterator[Operation]:
    bodies = {(route.method, route.path): route.body for route in routes()}
    found = document()
    for path, methods in found["paths"].items():
        for method, told in methods.items():
            parameters = told.get("parameters", [])
            content = told.get("requestBody", {}).get("content", {})
            schema = content.get("application/json", {}).get("schema", {})
            yield Operation(
                method.upper(),
                path,
                {each["name"]: each["schema"] for each in parameters if each["in"] == "query"},
                tuple(each["name"] for each in parameters if each["in"] == "header"),
                bodies.get((method.upper(), path)),
                _resolved(schema).get("properties", {}),
            )


def _of_pages() -> Iterator[Operation]:
    for router in window.PAGES:
        for route in router.routes:
            assert isinstance(route, APIRoute)
            needed = list(_with_dependencies(route.dependant))
            queries = [each.alias for one in needed for each in one.query_params]
            fields = [name for one in needed for name in _form_fields(one.body_params)]
            for method in sorted((route.methods or set()) - {"HEAD"}):
                yield Operation(
                    method,
                    route.path,
                    {name: {} for name in queries},
                    body=dict.fromkeys(fields, "x") if method == "POST" else None,
                    optional={name: {} for name in fields},
                    is_page=True,
                )


def _with_dependencies(dependant: Dependant) -> Iterator[Dependant]:
    yield dependant
    for each in dependant.dependencies:
        yield from _with_dependencies(each)


def _form_fields(parameters: Sequence[Any]) -> Iterator[str]:
    for each in parameters:
        shape = each.field_info.annotation
        if isinstance(shape, type) and issubclass(shape, BaseModel):
            yield from shape.model_fields
        else:
            yield each.alias


def _resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = document()["components"]["schemas"]
    while "$ref" in schema:
        schema = found[schema["$ref"].rpartition("/")[2]]
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in schema:
            return _resolved(schema[choice][0])
    return schema


Part = tuple[str, str]
"""Where a value stands: `path`, `query`, `header` or `field`, and its name; `body` and `method` have none."""
Spoiled = dict[Part, str | bytes]

WHOLE_BODY: Final[Part] = ("body", "")
METHOD: Final[Part] = ("method", "")
AUTHORIZATION: Final[Part] = ("header", "Authorization")


class Requests:
    """First, in an order that the seed decides, each part of each operation with each value that its type suggests;
    then several at once, and right ones in between.
    """

    def __init__(self, seed: int, callers: Mapping[str, Person | None], victim: Person) -> None:
        """`callers` by what they are called; None shows nothing. What the victim has is tried by all others."""
        self.seed = seed
        self._callers = callers
        self._victim = victim
        self._operations = operations()
        self._one_by_one = [
            (operation, part, value)
            for operation in self._operations
            for part, values in _parts(operation).items()
            for value in values
        ]
        Random(seed).shuffle(self._one_by_one)

    @property
    def count_one_by_one(self) -> int:
        """How many requests it takes to try each."""
        return len(self._one_by_one) * ONE_RIGHT_OF // (ONE_RIGHT_OF - 1)

    def make(self, number: int) -> Request:
        chance = Random(f"{self.seed}-{number}")
        # Whoever shows nothing comes no further than the door.
        [who] = chance.choices(list(self._callers), [WEIGHT[who] for who in self._callers])
        operation, spoiled = chance.choice(self._operations), Spoiled()
        if number % ONE_RIGHT_OF:
            place = number - number // ONE_RIGHT_OF - 1
            if place < len(self._one_by_one):
                operation, part, value = self._one_by_one[place]
                spoiled = {part: value}
            else:
                spoiled = _several(chance, operation)
        if operation.path.endswith("/sign-out"):
            who = STRANGER  # or the session would be over for the requests that follow
        making = _Making(chance, self._callers[who], self._victim, operation, spoiled)
        return making.request(number, who)


def _parts(operation: Operation) -> dict[Part, tuple[str | bytes, ...]]:
    """Each with the values that are tried in its place."""
    found: dict[Part, tuple[str | bytes, ...]] = {
        ("path", name): NUMBERS if name == "number" else NAMES
        for name in _parameters(operation.path)
    }
    found |= {("query", name): _values(schema) for name, schema in operation.queries.items()}
    found |= {("header", name): (*NAMES, *NUMBERS) for name in operation.headers}
    if operation.body is not None:
        known = operation.body if isinstance(operation.body, dict) else {}
        for name in dict.fromkeys((*known, *operation.optional)):
            values = _values(operation.optional.get(name, {}))
            found["field", name] = values if operation.is_page else (*values, *SMALL_JSON)
        found[WHOLE_BODY] = NAMES if operation.is_page else JSON
    return found


def _values(schema: Mapping[str, Any]) -> tuple[str, ...]:
    kinds = set(_kinds(schema))
    found: tuple[str, ...] = ()
    if kinds & {"date", "date-time"}:
        found += DATES
    if kinds & {"integer", "number", "boolean"}:
        found += NUMBERS
    return found or NAMES


def _kinds(schema: Mapping[str, Any]) -> Iterator[str]:
    """Types and formats, of all that it may be."""
    for choice in ("anyOf", "oneOf", "allOf"):
        for each in schema.get(choice, ()):
            yield from _kinds(each)
    if "$ref" in schema:
        yield from _kinds(_resolved(schema))
    if "items" in schema:
        yield from _kinds(schema["items"])
    yield schema.get("format") or schema.get("type", "string")


def _several(chance: Random, operation: Operation) -> Spoiled:
    parts = _parts(operation)
    parts |= {("header", chance.choice(HEADERS)): (*NAMES, *NUMBERS, *DATES)}
    parts |= {("query", chance.choice(NAMES)[:50]): NAMES, METHOD: METHODS, AUTHORIZATION: NAMES}
    chosen = chance.choices(list(parts), k=chance.choice((1, 2, 2, 3)))
    return {part: chance.choice(parts[part]) for part in chosen}


@dataclass
class _Making:
    """Of one request."""

    chance: Random
    caller: Person | None
    victim: Person
    operation: Operation
    spoiled: Spoiled

    def request(self, number: int, who: str) -> Request:
        operation = self.operation
        asks_of_own = not operation.ends_something and self.chance.random() < 0.8
        owner = self.caller if asks_of_own and self.caller is not None else self.victim
        values = dict(owner.values)
        if operation.ends_something and self.caller is not None:
            values = {name: self._another(value) for name, value in values.items()}
        target, headers, body = self._target(values), self._headers(), self._body(owner)
        if body is not None and ("header", "Content-Type") not in self.spoiled:
            usual = "application/x-www-form-urlencoded" if operation.is_page else "application/json"
            headers.append((b"Content-Type", usual.encode()))
        method = str(self.spoiled.get(METHOD, operation.method))
        if method == "DELETE" and operation.method != "DELETE" and owner is self.caller:
            method = "OPTIONS"
        is_plain = not self.spoiled and method == "GET" and who != STRANGER and asks_of_own
        return Request(number, who, operation, method, target, tuple(headers), body, is_plain)

    def _another(self, value: str) -> str:
        """Of the same form, and of nobody."""
        try:
            UUID(value)
        except ValueError:
            return value
        return self.chance.choice((str(UUID(int=self.chance.getrandbits(128))), "x"))

    def _target(self, values: Mapping[str, str]) -> bytes:
        known = {
            name: self.spoiled.get(("path", name), values.get(name, "x")) or "%"
            for name in _parameters(self.operation.path)
        }
        path = self.operation.path.format_map(
            {name: _quoted(value) for name, value in known.items()}
        )
        asked: list[tuple[str, str | bytes]] = [
            (name, value) for (where, name), value in self.spoiled.items() if where == "query"
        ]
        asked += [
            (name, values.get(name) or str(self._right(schema)))
            for name, schema in self.operation.queries.items()
            if ("query", name) not in self.spoiled and self.chance.random() < 0.2
        ]
        query = "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in asked)
        return (f"{path}?{query}" if query else path).encode()[:MOST_TARGET_BYTES]

    def _right(self, schema: Mapping[str, Any]) -> Any:
        found = _resolved(schema)
        if "enum" in found:
            return self.chance.choice(found["enum"])
        if "const" in found:
            return found["const"]
        match found.get("type"), found.get("format"):
            case "integer" | "number", _:
                return found.get("minimum", 1)
            case "boolean", _:
                return self.chance.choice((True, False))
            case "array", _:
                return [self._right(found.get("items", {}))]
            case "object", _:
                return {}
            case _, "date":
                return "2026-01-31"
            case _, "date-time":
                return "2026-01-31T00:00:00Z"
            case _, "uuid":
                return str(UUID(int=self.chance.getrandbits(128)))
            case _:
                length = max(found.get("minLength", 1), self.chance.randrange(1, 12))
                return "".join(self.chance.choices(string.ascii_lowercase, k=length))

    def _headers(self) -> list[tuple[bytes, bytes]]:
        address = ".".join(str(self.chance.randrange(256)) for _ in range(3))
        found: dict[str, bytes] = {
            "Host": b"127.0.0.1",
            # Each from another address, so that what one of them does wrong is not held against the others.
            "X-Forwarded-For": f"10.{address}".encode(),
        }
        if self.operation.is_page:
            found |= {"Accept": b"text/html", "Sec-Fetch-Site": b"same-origin"}
        if self.caller is not None:
            shown = self.caller.cookie if self.operation.is_page else self.caller.bearer
            found |= {name.title(): value.encode() for name, value in shown.items()}
        for (where, name), value in self.spoiled.items():
            if where == "header":
                found[name] = _header(value)
        if AUTHORIZATION in self.spoiled:
            scheme = self.chance.choice(SCHEMES).encode()
            found["Authorization"] = b"%s %s" % (scheme, found["Authorization"])
        return [(name.encode(), value) for name, value in found.items()]

    def _body(self, owner: Person) -> bytes | None:
        if self.operation.body is None:
            return None
        if WHOLE_BODY in self.spoiled:
            whole = self.spoiled[WHOLE_BODY]
            return whole if isinstance(whole, bytes) else _quoted(whole).encode()
        said = self.operation.body
        if isinstance(said, dict):
            named = self.victim if self.chance.random() < 0.1 else owner
            said = {
                key: named.values.get(key, value) if key in NAMES_OF_OTHERS else value
                for key, value in said.items()
            }
            for name, schema in self.operation.optional.items():
                if name not in said and self.chance.random() < 0.2:
                    said[name] = self._right(schema)
        return self._form(said) if self.operation.is_page else self._json(said)

    def _json(self, said: Any) -> bytes:
        if not isinstance(said, dict):
            return json.dumps(said).encode()
        values = {name: value for (where, name), value in self.spoiled.items() if where == "field"}
        written = [
            b'"%s": %s' % (name.encode(), _json_value(value, self.chance))
            for name, value in values.items()
        ]
        written += [
            json.dumps(name).encode() + b": " + json.dumps(value).encode()
            for name, value in said.items()
            if name not in values
        ]
        return b"{" + b", ".join(written) + b"}"

    def _form(self, said: Any) -> bytes:
        fields = dict(said) if isinstance(said, dict) else {}
        fields |= {name: value for (where, name), value in self.spoiled.items() if where == "field"}
        return "&".join(
            f"{_quoted(name)}={_quoted(value)}" for name, value in fields.items()
        ).encode()


def _json_value(value: str | bytes, chance: Random) -> bytes:
    """JSON as it is; a text as a text, or where it could be a number as that."""
    if isinstance(value, bytes):
        return value
    is_number = value in NUMBERS and value.isascii() and value.strip("+-.0123456789eE") == ""
    return value.encode() if is_number and chance.random() < 0.7 else json.dumps(value).encode()


def _header(value: str | bytes) -> bytes:
    """As bytes that end no line."""
    raw = _raw(value)[:MOST_HEAD_CHARACTERS]
    return raw.replace(b"\r", b" ").replace(b"\n", b" ").strip(b" \t")


def _parameters(path: str) -> list[str]:
    return [part.partition("}")[0].partition(":")[0] for part in path.split("{")[1:]]


def _quoted(value: str | bytes) -> str:
    return quote(_raw(value)[:MOST_HEAD_CHARACTERS], safe="")


def _raw(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
