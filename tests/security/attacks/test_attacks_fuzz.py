"""Random requests to every operation and page of the API, by every kind of caller."""

import asyncio
import json
import signal
import string
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes
from uuid import UUID

import h11
import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel

from bench.api_process import ApiProcess
from services.api.web import app as web_ui
from shared.accounts import credentials
from shared.enums import AccessScope
from tests.conftest import cloned
from tests.support.attack_mode import MODE, in_full
from tests.support.attacks.attack_setup import (
    SECRETS,
    AttackSetup,
    Person,
    make_attack_setup,
    make_person,
)
from tests.support.attacks.routes import all_routes, openapi_document
from tests.support.engines import Nats, Postgres
from tests.support.hostile import DATES, JSON, NUMBERS, TEXTS, UNSTORABLE
from tests.support.seeds import SEED

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


REQUESTS: Final = 2_000
FULL_REQUESTS: Final = 50_000
CONCURRENCY: Final = 6
RESPONSE_SECONDS: Final = 60.0
MAX_PRINTED: Final = 10
STREAM: Final = b"text/event-stream"
MAX_READ_BYTES: Final = 2_000_000


@dataclass(frozen=True)
class Answer:
    status: int
    """0 if the connection was closed without a response."""
    headers: dict[bytes, bytes]
    body: bytes
    seconds: float


@dataclass
class Results:
    """The results of all requests."""

    statuses: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    """By caller."""
    requested: Counter[str] = field(default_factory=Counter)
    successful: set[str] = field(default_factory=set)
    """Operations that answered with 2xx or 3xx at least once."""
    plain_seconds: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def add_fault(self, fault: str) -> None:
        """Record the fault, and print it at once: the full form takes minutes."""
        self.faults.append(fault)
        if len(self.faults) <= MAX_PRINTED:
            print(f"\n{fault}", flush=True)

    def p95_milliseconds(self) -> float:
        ordered = sorted(self.plain_seconds)
        return ordered[int(len(ordered) * 0.95)] * 1000 if ordered else 0.0


class Client:
    """One connection, reopened whenever it is closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def send(self, request: Request) -> Answer:
        """Send the request, and again over a new connection if the server closed the old one in the meantime."""
        was_used = self._writer is not None
        answer = await self._send_once(request)
        return await self._send_once(request) if answer.status == 0 and was_used else answer

    async def _send_once(self, request: Request) -> Answer:
        start = time.perf_counter()
        try:
            async with asyncio.timeout(RESPONSE_SECONDS):
                answer = await self._exchange(request, start)
        except (OSError, h11.RemoteProtocolError):
            await self.close()
            return Answer(0, {}, b"", time.perf_counter() - start)
        return answer

    async def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    async def _exchange(self, request: Request, start: float) -> Answer:
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._reader, self._writer
        assert reader is not None
        parser = h11.Connection(h11.CLIENT)
        # The parser gets an ordinary request, because it would reject the one that is sent.
        head = h11.Request(method=request.method, target="/", headers=[("Host", "a")])
        parser.send(head)
        parser.send(h11.EndOfMessage())
        writer.write(request.wire)
        await writer.drain()
        status, headers, body = 0, dict[bytes, bytes](), bytearray()
        while True:
            event = parser.next_event()
            if event is h11.NEED_DATA:
                parser.receive_data(await reader.read(65_536))
            elif isinstance(event, h11.Response):
                status, headers = event.status_code, dict(event.headers)
                if headers.get(b"content-type", b"").startswith(STREAM):
                    break  # an endless response
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                break
            if len(body) > MAX_READ_BYTES:
                break
        if parser.their_state is not h11.DONE or headers.get(b"connection") == b"close":
            await self.close()
        return Answer(status, headers, bytes(body), time.perf_counter() - start)


@dataclass(frozen=True)
class Target:
    attack_setup: AttackSetup
    operator: Person
    process: ApiProcess


@pytest.fixture
async def target(
    postgres: Postgres, nats_url: str, nats_server: Nats, tmp_path: Path
) -> AsyncIterator[Target]:
    with cloned(postgres) as url:
        attack_setup = await make_attack_setup(url)
        operator = await make_person(attack_setup.database, attack_setup.app, "chief")
        async with attack_setup.database.transaction() as session:
            await credentials.ensure_owner(session, "chief")
        token = await attack_setup.token("chief", tuple(AccessScope))
        operator = replace(operator, token=token)
        settings = attack_setup.settings.model_copy(update={"nats_url": nats_url, "owner": "chief"})
        process = ApiProcess(settings, tmp_path / "api.log", VIGIL_PROXIES="127.0.0.1")
        await process.start()
        yield Target(attack_setup, operator, process)
        await process.end(signal.SIGKILL)
        await attack_setup.app.state.answers.close()
        await attack_setup.app.state.database.close()
        await attack_setup.database.close()


async def test_the_api_answers_every_request_and_discloses_nothing_of_other_users(
    target: Target, seed: int
) -> None:
    attack_setup, pid = target.attack_setup, target.process.pid
    callers = {"ordinary": attack_setup.attacker, "operator": target.operator, ANONYMOUS: None}
    requests = Requests(seed, callers, attack_setup.victim)
    results = Results()
    count = FULL_REQUESTS if in_full() else REQUESTS
    assert requests.count_one_by_one < FULL_REQUESTS, (
        "not every value is tried: increase FULL_REQUESTS"
    )
    numbers = iter(range(count))
    start = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for _ in range(CONCURRENCY):
            group.create_task(_attack(target, requests, numbers, results))
    print(
        f"\n{count:,} requests in {time.monotonic() - start:.0f} s, seed {seed};"
        f" {len(results.plain_seconds):,} valid ones, p95 {results.p95_milliseconds():.0f} ms;"
        f" {len(results.successful)} operations answered"
    )
    for caller, statuses in sorted(results.statuses.items()):
        print(f"  {caller}: {dict(sorted(statuses.items()))}")
    log = target.process.log.read_text(errors="replace")
    assert not results.faults, f"{len(results.faults)} wrong answers\n" + "\n".join(
        results.faults[:MAX_PRINTED]
    )
    for line in log.splitlines():
        assert "Traceback" not in line, line[:6_000]
        assert "unexpected error" not in line, line[:6_000]
    assert target.process.pid == pid
    assert target.process.is_running
    all_operations = {f"{operation.method} {operation.path}" for operation in operations()}
    if in_full():
        assert set(results.requested) == all_operations
    assert len(results.successful) > len(all_operations) / 4, "too few operations succeeded"


async def _attack(
    target: Target, requests: Requests, numbers: Iterator[int], results: Results
) -> None:
    client = Client(target.process.port)
    for number in numbers:
        request = requests.make(number)
        try:
            answer = await client.send(request)
        except TimeoutError:
            results.add_fault(
                _describe(request, f"no answer in {RESPONSE_SECONDS:g} s", requests.seed)
            )
            await client.close()
            continue
        operation = f"{request.operation.method} {request.operation.path}"
        results.statuses[request.caller][answer.status] += 1
        results.requested[operation] += 1
        if 200 <= answer.status < 400:
            results.successful.add(operation)
            if request.is_plain:
                results.plain_seconds.append(answer.seconds)
        if fault := _fault(target, request, answer):
            results.add_fault(_describe(request, fault, requests.seed))
    await client.close()


def _fault(target: Target, request: Request, answer: Answer) -> str | None:
    if answer.status == 0:
        return "the connection was closed without an answer"
    if answer.status >= 500 and (answer.status != 503 or b"retry-after" not in answer.headers):
        return f"{answer.status}: {answer.body[:300]!r}"
    text = answer.body.decode(errors="replace")
    if request.caller != "operator":
        victim = target.attack_setup.victim
        for private in victim.private:
            if private in text and not request.contains(private) and not _is_common(private):
                return f"{answer.status} discloses {private!r} of another user"
    for user in (target.attack_setup.victim, target.attack_setup.attacker, target.operator):
        for secret in user.secrets:
            if secret in text and not request.contains(secret):
                return f"{answer.status} discloses a secret of {user.name}"
    if answer.status >= 400 and SECRETS.search(text):
        return f"{answer.status} discloses a secret"
    return None


def _is_common(private: str) -> bool:
    """Whether the value is a word that may be in any response."""
    return len(private) < 8 and private.isalpha()


def _describe(request: Request, fault: str, seed: int) -> str:
    return (
        f"request {request.number} as {request.caller}: {fault}\n"
        f"  {request.wire[:600]!r}\n"
        f"  reproduce: {SEED}={seed} {MODE}=full; the request depends only on the seed and its number"
    )
