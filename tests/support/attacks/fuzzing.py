"""Requests to every operation and page of the API: valid, almost valid and hostile ones.

A request depends only on the seed and its number, so a failed one can be reproduced.
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

from services.api.web import app as web_ui
from tests.support.attacks.attack_setup import Person
from tests.support.attacks.routes import all_routes, openapi_document
from tests.support.hostile import DATES, JSON, NUMBERS, TEXTS, UNSTORABLE

MAX_HEADER_CHARS: Final = 8_000
"""The limit of one header value; the server limits all headers to 64 KiB."""
DESTRUCTIVE_SUFFIXES: Final = ("/disable", "/end", "/delete", "/revoke", "/forget", "/discard")
"""Path suffixes of operations that delete or end something: they get ids of others, or unknown ones."""
REFERENCE_FIELDS: Final = ("kept", "merged", "one", "other", "agent")
"""Body fields that refer to something; values of another user are tried in them."""
HEADERS: Final = (
    "Accept", "Accept-Encoding", "Accept-Language", "Cookie", "Content-Type", "HX-Request", "HX-Target", "Host",
    "Idempotency-Key", "If-Match", "If-None-Match", "If-Modified-Since", "Last-Event-ID", "Origin", "Prefer", "Range",
    "Referer", "Sec-Fetch-Site", "Traceparent", "User-Agent", "X-Forwarded-For", "X-Forwarded-Host",
    "X-Forwarded-Proto", "X-HTTP-Method-Override", "X-Request-ID",
)  # fmt: skip
ANONYMOUS: Final = "nobody"
"""The name of the caller without a credential."""
WEIGHT: Final = {"ordinary": 5, "operator": 4, ANONYMOUS: 1}
VALID_REQUEST_INTERVAL: Final = 7
"""One request in this many is valid."""
MAX_TARGET_BYTES: Final = 30_000
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD")
NAMES: Final = (*TEXTS, *UNSTORABLE)
SMALL_JSON: Final = tuple(value for value in JSON if len(value) < 10_000)
SCHEMES: Final = ("Bearer", "bearer", "Basic", "Digest", "Negotiate", "")


@dataclass(frozen=True)
class Operation:
    """An operation of the API document, or a page of the web UI, whose body is a form."""

    method: str
    path: str
    queries: Mapping[str, Any] = field(default_factory=dict)
    """JSON Schemas by name."""
    headers: tuple[str, ...] = ()
    body: Any = None
    """A valid body, with `{name}` placeholders; None if the operation takes none."""
    optional: Mapping[str, Any] = field(default_factory=dict)
    """Optional fields of the body: JSON Schemas by name."""
    is_page: bool = False

    @property
    def is_destructive(self) -> bool:
        return self.method == "DELETE" or self.path.endswith(DESTRUCTIVE_SUFFIXES)


@dataclass(frozen=True)
class Request:
    number: int
    caller: str
    operation: Operation
    method: str
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes | None
    is_plain: bool
    """A valid request, as a client sends it: its latency is measured."""

    @property
    def wire(self) -> bytes:
        lines = [b"%s %s HTTP/1.1" % (self.method.encode(), self.target)]
        lines += [name + b": " + value for name, value in self.headers]
        if self.body is not None:
            lines.append(b"Content-Length: %d" % len(self.body))
        return b"\r\n".join(lines) + b"\r\n\r\n" + (self.body or b"")

    def contains(self, secret: str) -> bool:
        """Whether the request contains the secret, so that the response may repeat it."""
        return secret.encode() in unquote_to_bytes(self.target) + (self.body or b"")


def operations() -> list[Operation]:
    return [*_api_operations(), *_page_operations()]


def _api_operations() -> Iterator[Operation]:
    bodies = {(route.method, route.path): route.body for route in all_routes()}
    spec = openapi_document()
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            parameters = operation.get("parameters", [])
            content = operation.get("requestBody", {}).get("content", {})
            schema = content.get("application/json", {}).get("schema", {})
            yield Operation(
                method.upper(),
                path,
                {
                    parameter["name"]: parameter["schema"]
                    for parameter in parameters
                    if parameter["in"] == "query"
                },
                tuple(parameter["name"] for parameter in parameters if parameter["in"] == "header"),
                bodies.get((method.upper(), path)),
                _resolve(schema).get("properties", {}),
            )


def _page_operations() -> Iterator[Operation]:
    for router in web_ui.PAGES:
        for route in router.routes:
            assert isinstance(route, APIRoute)
            dependants = list(_with_dependencies(route.dependant))
            queries = [
                parameter.alias for dependant in dependants for parameter in dependant.query_params
            ]
            fields = [
                name for dependant in dependants for name in _form_fields(dependant.body_params)
            ]
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
    for dependency in dependant.dependencies:
        yield from _with_dependencies(dependency)


def _form_fields(parameters: Sequence[Any]) -> Iterator[str]:
    for parameter in parameters:
        annotation = parameter.field_info.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from annotation.model_fields
        else:
            yield parameter.alias


def _resolve(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    schemas = openapi_document()["components"]["schemas"]
    while "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in schema:
            return _resolve(schema[choice][0])
    return schema


Location = tuple[str, str]
"""The location of a value: `path`, `query`, `header` or `field`, and its name; `body` and `method` have none."""
Replacements = dict[Location, str | bytes]

WHOLE_BODY: Final[Location] = ("body", "")
METHOD: Final[Location] = ("method", "")
AUTHORIZATION: Final[Location] = ("header", "Authorization")


class Requests:
    """First every location of every operation with every candidate value, in random order; then random combinations,
    with valid requests in between.
    """

    def __init__(self, seed: int, callers: Mapping[str, Person | None], victim: Person) -> None:
        """`callers` are by name; None has no credential. All of them try the ids of the victim."""
        self.seed = seed
        self._callers = callers
        self._victim = victim
        self._operations = operations()
        self._one_by_one = [
            (operation, part, value)
            for operation in self._operations
            for part, values in _candidate_values(operation).items()
            for value in values
        ]
        Random(seed).shuffle(self._one_by_one)

    @property
    def count_one_by_one(self) -> int:
        """The number of requests needed to try every value."""
        return len(self._one_by_one) * VALID_REQUEST_INTERVAL // (VALID_REQUEST_INTERVAL - 1)

    def make(self, number: int) -> Request:
        rng = Random(f"{self.seed}-{number}")
        [caller] = rng.choices(list(self._callers), [WEIGHT[name] for name in self._callers])
        operation, replacements = rng.choice(self._operations), Replacements()
        if number % VALID_REQUEST_INTERVAL:
            index = number - number // VALID_REQUEST_INTERVAL - 1
            if index < len(self._one_by_one):
                operation, location, value = self._one_by_one[index]
                replacements = {location: value}
            else:
                replacements = _random_replacements(rng, operation)
        if operation.path.endswith("/sign-out"):
            caller = ANONYMOUS  # otherwise later requests would have no session
        builder = _RequestBuilder(rng, self._callers[caller], self._victim, operation, replacements)
        return builder.request(number, caller)


def _candidate_values(operation: Operation) -> dict[Location, tuple[str | bytes, ...]]:
    """Return the values to try for each location."""
    candidates: dict[Location, tuple[str | bytes, ...]] = {
        ("path", name): NUMBERS if name == "number" else NAMES
        for name in _parameters(operation.path)
    }
    candidates |= {("query", name): _values(schema) for name, schema in operation.queries.items()}
    candidates |= {("header", name): (*NAMES, *NUMBERS) for name in operation.headers}
    if operation.body is not None:
        fields = operation.body if isinstance(operation.body, dict) else {}
        for name in dict.fromkeys((*fields, *operation.optional)):
            values = _values(operation.optional.get(name, {}))
            candidates["field", name] = values if operation.is_page else (*values, *SMALL_JSON)
        candidates[WHOLE_BODY] = NAMES if operation.is_page else JSON
    return candidates


def _values(schema: Mapping[str, Any]) -> tuple[str, ...]:
    kinds = set(_kinds(schema))
    values: tuple[str, ...] = ()
    if kinds & {"date", "date-time"}:
        values += DATES
    if kinds & {"integer", "number", "boolean"}:
        values += NUMBERS
    return values or NAMES


def _kinds(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the types and formats that the schema allows."""
    for choice in ("anyOf", "oneOf", "allOf"):
        for inner in schema.get(choice, ()):
            yield from _kinds(inner)
    if "$ref" in schema:
        yield from _kinds(_resolve(schema))
    if "items" in schema:
        yield from _kinds(schema["items"])
    yield schema.get("format") or schema.get("type", "string")


def _random_replacements(rng: Random, operation: Operation) -> Replacements:
    candidates = _candidate_values(operation)
    candidates |= {("header", rng.choice(HEADERS)): (*NAMES, *NUMBERS, *DATES)}
    candidates |= {("query", rng.choice(NAMES)[:50]): NAMES, METHOD: METHODS, AUTHORIZATION: NAMES}
    chosen = rng.choices(list(candidates), k=rng.choice((1, 2, 2, 3)))
    return {location: rng.choice(candidates[location]) for location in chosen}


@dataclass
class _RequestBuilder:
    """Builds one request."""

    rng: Random
    caller: Person | None
    victim: Person
    operation: Operation
    replacements: Replacements

    def request(self, number: int, caller_name: str) -> Request:
        operation = self.operation
        uses_own_values = not operation.is_destructive and self.rng.random() < 0.8
        owner = self.caller if uses_own_values and self.caller is not None else self.victim
        values = dict(owner.values)
        if operation.is_destructive and self.caller is not None:
            values = {name: self._unknown_value(value) for name, value in values.items()}
        target, headers, body = self._target(values), self._headers(), self._body(owner)
        if body is not None and ("header", "Content-Type") not in self.replacements:
            content_type = (
                "application/x-www-form-urlencoded" if operation.is_page else "application/json"
            )
            headers.append((b"Content-Type", content_type.encode()))
        method = str(self.replacements.get(METHOD, operation.method))
        if method == "DELETE" and operation.method != "DELETE" and owner is self.caller:
            method = "OPTIONS"
        is_plain = (
            not self.replacements
            and method == "GET"
            and caller_name != ANONYMOUS
            and uses_own_values
        )
        return Request(
            number, caller_name, operation, method, target, tuple(headers), body, is_plain
        )

    def _unknown_value(self, value: str) -> str:
        """Return a value of the same form that belongs to nobody."""
        try:
            UUID(value)
        except ValueError:
            return value
        return self.rng.choice((str(UUID(int=self.rng.getrandbits(128))), "x"))

    def _target(self, values: Mapping[str, str]) -> bytes:
        path_values = {
            name: self.replacements.get(("path", name), values.get(name, "x")) or "%"
            for name in _parameters(self.operation.path)
        }
        path = self.operation.path.format_map(
            {name: _quote(value) for name, value in path_values.items()}
        )
        query_values: list[tuple[str, str | bytes]] = [
            (name, value) for (where, name), value in self.replacements.items() if where == "query"
        ]
        query_values += [
            (name, values.get(name) or str(self._valid_value(schema)))
            for name, schema in self.operation.queries.items()
            if ("query", name) not in self.replacements and self.rng.random() < 0.2
        ]
        query = "&".join(f"{_quote(name)}={_quote(value)}" for name, value in query_values)
        return (f"{path}?{query}" if query else path).encode()[:MAX_TARGET_BYTES]

    def _valid_value(self, schema: Mapping[str, Any]) -> Any:
        resolved = _resolve(schema)
        if "enum" in resolved:
            return self.rng.choice(resolved["enum"])
        if "const" in resolved:
            return resolved["const"]
        match resolved.get("type"), resolved.get("format"):
            case "integer" | "number", _:
                return resolved.get("minimum", 1)
            case "boolean", _:
                return self.rng.choice((True, False))
            case "array", _:
                return [self._valid_value(resolved.get("items", {}))]
            case "object", _:
                return {}
            case _, "date":
                return "2026-01-31"
            case _, "date-time":
                return "2026-01-31T00:00:00Z"
            case _, "uuid":
                return str(UUID(int=self.rng.getrandbits(128)))
            case _:
                length = max(resolved.get("minLength", 1), self.rng.randrange(1, 12))
                return "".join(self.rng.choices(string.ascii_lowercase, k=length))

    def _headers(self) -> list[tuple[bytes, bytes]]:
        address = ".".join(str(self.rng.randrange(256)) for _ in range(3))
        headers: dict[str, bytes] = {
            "Host": b"127.0.0.1",
            # Each from another address, so that one bad request does not affect the rate limit of the others.
            "X-Forwarded-For": f"10.{address}".encode(),
        }
        if self.operation.is_page:
            headers |= {"Accept": b"text/html", "Sec-Fetch-Site": b"same-origin"}
        if self.caller is not None:
            credential = self.caller.cookie if self.operation.is_page else self.caller.bearer
            headers |= {name.title(): value.encode() for name, value in credential.items()}
        for (where, name), value in self.replacements.items():
            if where == "header":
                headers[name] = _header(value)
        if AUTHORIZATION in self.replacements:
            scheme = self.rng.choice(SCHEMES).encode()
            headers["Authorization"] = b"%s %s" % (scheme, headers["Authorization"])
        return [(name.encode(), value) for name, value in headers.items()]

    def _body(self, owner: Person) -> bytes | None:
        if self.operation.body is None:
            return None
        if WHOLE_BODY in self.replacements:
            whole = self.replacements[WHOLE_BODY]
            return whole if isinstance(whole, bytes) else _quote(whole).encode()
        content = self.operation.body
        if isinstance(content, dict):
            person = self.victim if self.rng.random() < 0.1 else owner
            content = {
                key: person.values.get(key, value) if key in REFERENCE_FIELDS else value
                for key, value in content.items()
            }
            for name, schema in self.operation.optional.items():
                if name not in content and self.rng.random() < 0.2:
                    content[name] = self._valid_value(schema)
        return self._form(content) if self.operation.is_page else self._json(content)

    def _json(self, content: Any) -> bytes:
        if not isinstance(content, dict):
            return json.dumps(content).encode()
        values = {
            name: value for (where, name), value in self.replacements.items() if where == "field"
        }
        members = [
            b'"%s": %s' % (name.encode(), _json_value(value, self.rng))
            for name, value in values.items()
        ]
        members += [
            json.dumps(name).encode() + b": " + json.dumps(value).encode()
            for name, value in content.items()
            if name not in values
        ]
        return b"{" + b", ".join(members) + b"}"

    def _form(self, content: Any) -> bytes:
        fields = dict(content) if isinstance(content, dict) else {}
        fields |= {
            name: value for (where, name), value in self.replacements.items() if where == "field"
        }
        return "&".join(
            f"{_quote(name)}={_quote(value)}" for name, value in fields.items()
        ).encode()


def _json_value(value: str | bytes, rng: Random) -> bytes:
    """Return bytes unchanged, and a text as a JSON string or, if possible, as a number."""
    if isinstance(value, bytes):
        return value
    is_number = value in NUMBERS and value.isascii() and value.strip("+-.0123456789eE") == ""
    return value.encode() if is_number and rng.random() < 0.7 else json.dumps(value).encode()


def _header(value: str | bytes) -> bytes:
    """Return the value as bytes without line breaks."""
    raw = _raw(value)[:MAX_HEADER_CHARS]
    return raw.replace(b"\r", b" ").replace(b"\n", b" ").strip(b" \t")


def _parameters(path: str) -> list[str]:
    return [part.partition("}")[0].partition(":")[0] for part in path.split("{")[1:]]


def _quote(value: str | bytes) -> str:
    return quote(_raw(value)[:MAX_HEADER_CHARS], safe="")


def _raw(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
