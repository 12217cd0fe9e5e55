"""Random requests to every operation and page of the API, by every kind of caller."""

import asyncio
import signal
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import h11
import pytest

from bench.api_process import ApiProcess
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
from tests.support.attacks.fuzzing import ANONYMOUS, Request, Requests, operations
from tests.support.engines import Nats, Postgres
from tests.support.seeds import SEED

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
