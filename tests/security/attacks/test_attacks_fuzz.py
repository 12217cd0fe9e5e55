"""Every operation and page, by everybody who may reach the api, with whatever a request can hold."""

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
from tests.support.attacks.fuzzing import STRANGER, Request, Requests, operations
from tests.support.attacks.world import SECRETS, Person, World, made_world, person
from tests.support.engines import Nats, Postgres
from tests.support.seeds import SEED

REQUESTS: Final = 2_000
REQUESTS_IN_FULL: Final = 50_000
AT_ONCE: Final = 6
ANSWER_SECONDS: Final = 60.0
MOST_SHOWN: Final = 10
STREAM: Final = b"text/event-stream"
LONGEST_READ_BYTES: Final = 2_000_000


@dataclass(frozen=True)
class Answer:
    status: int
    """0 where the connection was closed without one."""
    headers: dict[bytes, bytes]
    body: bytes
    seconds: float


@dataclass
class Seen:
    """What became of all requests."""

    statuses: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    """By who asked."""
    asked: Counter[str] = field(default_factory=Counter)
    good: set[str] = field(default_factory=set)
    """Operations that answered with 2xx or 3xx at least once."""
    plain_seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def note(self, wrong: str) -> None:
        """Printed at once: the full form takes minutes."""
        self.wrong.append(wrong)
        if len(self.wrong) <= MOST_SHOWN:
            print(f"\n{wrong}", flush=True)

    def p95_milliseconds(self) -> float:
        ordered = sorted(self.plain_seconds)
        return ordered[int(len(ordered) * 0.95)] * 1000 if ordered else 0.0


class Client:
    """One connection, opened again whenever it is closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, request: Request) -> Answer:
        """A second time, by a new connection, where one that was used before is closed in the meantime."""
        was_used = self._writer is not None
        found = await self._asked(request)
        return await self._asked(request) if found.status == 0 and was_used else found

    async def _asked(self, request: Request) -> Answer:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                found = await self._answer(request, began)
        except (OSError, h11.RemoteProtocolError):
            await self.close()
            return Answer(0, {}, b"", time.perf_counter() - began)
        return found

    async def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    async def _answer(self, request: Request, began: float) -> Answer:
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._reader, self._writer
        assert reader is not None
        parser = h11.Connection(h11.CLIENT)
        # The parser is told of an ordinary request: it would not let through what is sent.
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
                    break  # it never ends
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                break
            if len(body) > LONGEST_READ_BYTES:
                break
        if parser.their_state is not h11.DONE or headers.get(b"connection") == b"close":
            await self.close()
        return Answer(status, headers, bytes(body), time.perf_counter() - began)


@dataclass(frozen=True)
class Target:
    world: World
    operator: Person
    process: ApiProcess


@pytest.fixture
async def target(
    postgres: Postgres, nats_url: str, nats_server: Nats, tmp_path: Path
) -> AsyncIterator[Target]:
    with cloned(postgres) as url:
        world = await made_world(url)
        operator = await person(world.database, world.app, "chief")
        async with world.database.transaction() as session:
            await credentials.ensure_owner(session, "chief")
        token = await world.token("chief", tuple(AccessScope))
        operator = replace(operator, token=token)
        settings = world.settings.model_copy(update={"nats_url": nats_url, "owner": "chief"})
        process = ApiProcess(settings, tmp_path / "api.log", VIGIL_PROXIES="127.0.0.1")
        await process.start()
        yield Target(world, operator, process)
        await process.end(signal.SIGKILL)
        await world.app.state.answers.close()
        await world.app.state.database.close()
        await world.database.close()


async def test_whatever_is_asked_the_api_answers_and_tells_nobody_what_is_anothers(
    target: Target, seed: int
) -> None:
    world, pid = target.world, target.process.pid
    callers = {"ordinary": world.attacker, "operator": target.operator, STRANGER: None}
    made = Requests(seed, callers, world.victim)
    seen = Seen()
    count = REQUESTS_IN_FULL if in_full() else REQUESTS
    assert made.count_one_by_one < REQUESTS_IN_FULL, "ask more, or not every value is tried"
    numbers = iter(range(count))
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(_attack(target, made, numbers, seen))
    print(
        f"\n{count:,} requests in {time.monotonic() - began:.0f} s, seed {seed};"
        f" {len(seen.plain_seconds):,} right ones, p95 {seen.p95_milliseconds():.0f} ms;"
        f" {len(seen.good)} operations answered"
    )
    for who, statuses in sorted(seen.statuses.items()):
        print(f"  {who}: {dict(sorted(statuses.items()))}")
    log = target.process.log.read_text(errors="replace")
    assert not seen.wrong, f"{len(seen.wrong)} wrong answers\n" + "\n".join(seen.wrong[:MOST_SHOWN])
    for line in log.splitlines():
        assert "Traceback" not in line, line[:6_000]
        assert "unexpected error" not in line, line[:6_000]
    assert target.process.pid == pid
    assert target.process.is_running
    everything = {f"{each.method} {each.path}" for each in operations()}
    if in_full():
        assert set(seen.asked) == everything
    assert len(seen.good) > len(everything) / 4, "hardly anything was answered"


async def _attack(target: Target, made: Requests, numbers: Iterator[int], seen: Seen) -> None:
    client = Client(target.process.port)
    for number in numbers:
        request = made.make(number)
        try:
            answer = await client.ask(request)
        except TimeoutError:
            seen.note(_told(request, f"no answer in {ANSWER_SECONDS:g} s", made.seed))
            await client.close()
            continue
        operation = f"{request.operation.method} {request.operation.path}"
        seen.statuses[request.who][answer.status] += 1
        seen.asked[operation] += 1
        if 200 <= answer.status < 400:
            seen.good.add(operation)
            if request.is_plain:
                seen.plain_seconds.append(answer.seconds)
        if fault := _fault(target, request, answer):
            seen.note(_told(request, fault, made.seed))
    await client.close()


def _fault(target: Target, request: Request, answer: Answer) -> str | None:
    if answer.status == 0:
        return "the connection was closed without an answer"
    if answer.status >= 500 and (answer.status != 503 or b"retry-after" not in answer.headers):
        return f"{answer.status}: {answer.body[:300]!r}"
    told = answer.body.decode(errors="replace")
    if request.who != "operator":
        victim = target.world.victim
        for private in victim.private:
            if private in told and not request.names(private) and not _is_common(private):
                return f"{answer.status} tells {private!r} of another user"
    for each in (target.world.victim, target.world.attacker, target.operator):
        for secret in each.secrets:
            if secret in told and not request.names(secret):
                return f"{answer.status} tells a secret of {each.name}"
    if answer.status >= 400 and SECRETS.search(told):
        return f"{answer.status} tells a secret"
    return None


def _is_common(private: str) -> bool:
    """A word that may stand in any answer."""
    return len(private) < 8 and private.isalpha()


def _told(request: Request, fault: str, seed: int) -> str:
    return (
        f"request {request.number} as {request.who}: {fault}\n"
        f"  {request.wire[:600]!r}\n"
        f"  again: {SEED}={seed} {MODE}=full; the request is made of the seed and its number"
    )
