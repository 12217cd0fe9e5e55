"""Subjects that NATS denies to the user of each service, and what readers may receive."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import nats
import pytest
from nats.aio.client import Client

from services.scheduler.stream_keeper import StreamKeeper
from shared.errors import TransientError
from shared.events.models import QueryFailed
from shared.events.permissions import MIGRATE, PERMISSIONS, SCHEDULER
from shared.events.stream_admin import find_consumer_fault
from shared.events.stream_reader import connect_reader, follow, stream_state
from shared.events.topology import CONSUMERS, STREAM
from shared.runtime import bus as bus_module
from shared.runtime.connections import create_bus
from shared.runtime.credentials import build_nats_credentials
from tests.support.secured_installation import SecuredInstallation
from tests.support.waiting import wait_until

OTHER_CONSUMER = {name: next(other for other in CONSUMERS if other != name) for name in PERMISSIONS}


def forbidden_subjects() -> Iterator[tuple[str, str]]:
    """Yield users and the subjects that they must not publish."""
    for user in PERMISSIONS:
        other = OTHER_CONSUMER[user]
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
            if user != SCHEDULER:  # which creates consumers that NATS has lost
                yield user, f"$JS.API.CONSUMER.DURABLE.CREATE.{STREAM}.{other}"
            # Only migrate recreates consumers with the deliver policy of an older version.
            yield user, f"$JS.API.CONSUMER.DELETE.{STREAM}.{other}"
    for subject in ("analysis.produced", "advice.produced", "iteration.completed", "plan.produced"):
        for user in ("researcher", "api", "operator", "migrate"):
            yield user, subject
    yield "analyzer", "advice.produced"
    yield "adviser", "analysis.produced"
    yield "observer", "iteration.started"
    yield "aggregator", "advice.produced"


@pytest.mark.parametrize("user", list(PERMISSIONS))
async def test_nats_denies_publishing(installation: SecuredInstallation, user: str) -> None:
    subjects = sorted(subject for other_user, subject in forbidden_subjects() if other_user == user)
    async with connected(installation, user) as (client, complaints):
        for subject in subjects:
            await client.publish(subject, b"{}")
        await client.flush()

        async def not_refused() -> list[str]:
            return [
                subject for subject in subjects if not _complained("publish", subject, complaints)
            ]

        await wait_until(
            lambda: _none_left(not_refused), what="NATS to refuse each of them", seconds=5
        )


async def _none_left(find: Any) -> bool:
    remaining = await find()
    return not remaining


@pytest.mark.parametrize("user", list(PERMISSIONS))
async def test_nats_denies_subscribing(installation: SecuredInstallation, user: str) -> None:
    other = OTHER_CONSUMER[user]
    subjects = [f"_INBOX_{other}.>", "*.>", ">", "$SYS.>", "$JS.>"]
    if user not in ("api", "operator"):
        subjects += ["query.*", "advice.produced"]
    async with connected(installation, user) as (client, complaints):
        for subject in subjects:
            await client.subscribe(subject)
        await client.flush()

        async def all_refused() -> bool:
            return all(_complained("subscription", subject, complaints) for subject in subjects)

        await wait_until(all_refused, what=f"NATS to refuse {subjects}", seconds=5)


def _complained(verb: str, subject: str, complaints: list[str]) -> bool:
    message = f'permissions violation for {verb} to "{subject}"'.lower()
    return any(message in complaint.lower() for complaint in complaints)


@asynccontextmanager
async def connected(
    installation: SecuredInstallation, user: str
) -> AsyncIterator[tuple[Client, list[str]]]:
    """Yield a client of the user, and the errors that NATS reports to it."""
    complaints: list[str] = []

    async def on_error(error: Exception) -> None:
        complaints.append(str(error))

    options = build_nats_credentials(installation.settings(user), user).options()
    client = await nats.connect(installation.nats_url, error_cb=on_error, **options)
    yield client, complaints
    await client.close()


async def test_the_scheduler_creates_a_lost_consumer_again(
    installation: SecuredInstallation,
) -> None:
    async with connected(installation, MIGRATE) as (client, _):
        jetstream = client.jetstream()
        await jetstream.delete_consumer(STREAM, "notifier")
        settings = installation.settings(SCHEDULER)
        bus = create_bus(settings, SCHEDULER)
        await bus.connect()
        keeper = StreamKeeper(bus, settings)
        for _ in range(2):
            await keeper.check()
        await bus.close()
        assert await find_consumer_fault(jetstream, CONSUMERS["notifier"]) is None


async def test_a_scheduler_with_permissions_of_an_older_version_stops_checking(
    installation: SecuredInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The observer may not ask for other consumers either."""
    monkeypatch.setattr(bus_module, "PUBLISH_TIMEOUT_SECONDS", 0.5)
    settings = installation.settings("observer")
    bus = create_bus(settings, "observer")
    await bus.connect()
    assert not bus.forbids("$JS.API.")
    with pytest.raises(TransientError):
        await StreamKeeper(bus, settings).check()
    assert bus.forbids("$JS.API.")
    await bus.close()


@pytest.mark.parametrize("user", ["api", "operator"])
async def test_readers_follow_the_stream(installation: SecuredInstallation, user: str) -> None:
    bus = create_bus(installation.settings("researcher"), "researcher")
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
        installation.nats_url, build_nats_credentials(installation.settings(user), user)
    ) as client:
        state = await stream_state(client)
        assert state is not None
        async with asyncio.timeout(10):
            async for stored in follow(client, "query.*", from_sequence=1):
                if stored.event == event:
                    break
        for consumer in CONSUMERS:
            assert await client.jetstream().consumer_info(STREAM, consumer)


async def test_any_client_receives_events_with_the_operators_user(
    installation: SecuredInstallation,
) -> None:
    password = installation.settings("operator").nats_password
    assert password is not None
    client = await nats.connect(
        installation.nats_url, user="operator", password=password.get_secret_value()
    )
    subscription = await client.subscribe("query.*")
    await client.flush()
    bus = create_bus(installation.settings("researcher"), "researcher")
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
    assert (await subscription.next_msg(timeout=5)).subject == "query.failed"
    assert (await client.jetstream().stream_info(STREAM)).config.name == STREAM
    await client.close()
