"""What NATS denies to each actor's user, and what it lets readers hear."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import nats
import pytest
from nats.aio.client import Client

from shared.events.models import QueryFailed
from shared.events.permissions import PERMISSIONS
from shared.events.stream_reader import connect_reader, follow, stream_state
from shared.events.topology import CONSUMERS, STREAM
from shared.runtime.connections import create_bus
from shared.runtime.credentials import build_nats_credentials
from tests.support.guarded import Guarded
from tests.support.waiting import until

OF_OTHERS = {name: next(other for other in CONSUMERS if other != name) for name in PERMISSIONS}


def forbidden() -> Iterator[tuple[str, str]]:
    """User and subject: what must be refused to be said."""
    for user in PERMISSIONS:
        other = OF_OTHERS[user]
        yield from (
            (user, subject)
            for subject in (
                f"$JS.API.STREAM.DELETE.{STREAM}",
                f"$JS.API.STREAM.PURGE.{STREAM}",
                f"$JS.API.STREAM.MSG.DELETE.{STREAM}",
                "$JS.API.STREAM.CREATE.ANOTHER",
                f"$JS.API.CONSUMER.PAUSE.{STREAM}.{other}",
                f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{other}",
                f"$JS.API.CONSUMER.CREATE.{STREAM}.{other}",
                f"$JS.API.CONSUMER.CREATE.{STREAM}.{other}.query.requested",
                f"$JS.ACK.{STREAM}.{other}.1.1.1.1.1",
                f"_INBOX_{other}.abc",
                "$SYS.REQ.SERVER.PING",
            )
        )
        if user != "migrate":
            yield user, f"$JS.API.STREAM.UPDATE.{STREAM}"
            yield user, f"$JS.API.CONSUMER.DURABLE.CREATE.{STREAM}.{other}"
            # Whose deliver policy is an older version's is made again by migrate, and by nobody else.
            yield user, f"$JS.API.CONSUMER.DELETE.{STREAM}.{other}"
    for subject in ("analysis.produced", "advice.produced", "iteration.completed", "plan.produced"):
        for user in ("researcher", "api", "operator", "migrate"):
            yield user, subject
    yield "analyzer", "advice.produced"
    yield "adviser", "analysis.produced"
    yield "observer", "iteration.started"
    yield "aggregator", "advice.produced"


@pytest.mark.parametrize("user", list(PERMISSIONS))
async def test_nats_denies_to_say(closed: Guarded, user: str) -> None:
    subjects = sorted(subject for whose, subject in forbidden() if whose == user)
    async with connected(closed, user) as (client, complaints):
        for subject in subjects:
            await client.publish(subject, b"{}")
        await client.flush()

        async def refused() -> list[str]:
            return [each for each in subjects if not _complained("publish", each, complaints)]

        await until(lambda: _none_left(refused), what="NATS to refuse each of them", seconds=5)


async def _none_left(find: Any) -> bool:
    left = await find()
    return not left


@pytest.mark.parametrize("user", list(PERMISSIONS))
async def test_nats_denies_to_hear(closed: Guarded, user: str) -> None:
    other = OF_OTHERS[user]
    subjects = [f"_INBOX_{other}.>", "*.>", ">", "$SYS.>", "$JS.>"]
    if user not in ("api", "operator"):
        subjects += ["query.*", "advice.produced"]
    async with connected(closed, user) as (client, complaints):
        for subject in subjects:
            await client.subscribe(subject)
        await client.flush()

        async def all_refused() -> bool:
            return all(_complained("subscription", each, complaints) for each in subjects)

        await until(all_refused, what=f"NATS to refuse {subjects}", seconds=5)


def _complained(verb: str, subject: str, complaints: list[str]) -> bool:
    wanted = f'permissions violation for {verb} to "{subject}"'.lower()
    return any(wanted in complaint.lower() for complaint in complaints)


@asynccontextmanager
async def connected(closed: Guarded, user: str) -> AsyncIterator[tuple[Client, list[str]]]:
    """A client of that user, and what NATS complains about to it."""
    complaints: list[str] = []

    async def hear(error: Exception) -> None:
        complaints.append(str(error))

    options = build_nats_credentials(closed.settings(user), user).options()
    client = await nats.connect(closed.nats_url, error_cb=hear, **options)
    yield client, complaints
    await client.close()


@pytest.mark.parametrize("user", ["api", "operator"])
async def test_readers_follow_the_stream(closed: Guarded, user: str) -> None:
    bus = create_bus(closed.settings("researcher"), "researcher")
    await bus.connect()
    event = QueryFailed.of(
        agent_id=uuid4(),
        iteration_id=uuid4(),
        step_id=uuid4(),
        occurred_at=datetime.now(UTC),
        error="no answer",
    )
    await bus.publish(event)
    await bus.close()
    async with connect_reader(
        closed.nats_url, build_nats_credentials(closed.settings(user), user)
    ) as client:
        kept = await stream_state(client)
        assert kept is not None
        async with asyncio.timeout(10):
            async for told in follow(client, "query.*", from_sequence=1):
                if told.event == event:
                    break
        for consumer in CONSUMERS:
            assert await client.jetstream().consumer_info(STREAM, consumer)


async def test_any_client_hears_events_with_the_operators_user(closed: Guarded) -> None:
    password = closed.settings("operator").nats_password
    assert password is not None
    client = await nats.connect(
        closed.nats_url, user="operator", password=password.get_secret_value()
    )
    heard = await client.subscribe("query.*")
    await client.flush()
    bus = create_bus(closed.settings("researcher"), "researcher")
    await bus.connect()
    await bus.publish(
        QueryFailed.of(
            agent_id=uuid4(),
            iteration_id=uuid4(),
            step_id=uuid4(),
            occurred_at=datetime.now(UTC),
            error="no answer",
        )
    )
    await bus.close()
    assert (await heard.next_msg(timeout=5)).subject == "query.failed"
    assert (await client.jetstream().stream_info(STREAM)).config.name == STREAM
    await client.close()
