"""The running installation: its api, engines, actors."""

import asyncio
from collections.abc import Iterator

import psycopg

from cli.client.client import Client
from cli.client.target import Api
from cli.doctor.finding import Finding, bad, good, note
from cli.errors import AwayError, CommandError
from cli.local.data_directory import Running
from cli.local.members import ACTORS, SANDBOX
from cli.local.ports import unreadiness
from cli.render.console import ago, counted
from shared.database import pgvector
from shared.errors import TransientError
from shared.events.credentials import Credentials
from shared.events.stream_admin import fault
from shared.events.stream_reader import listening, stored
from shared.events.topology import CONSUMERS
from shared.schemas.base import OutsideView

CONNECT_SECONDS = 3


def process(running: Running) -> Finding:
    return good("installation", f"process {running.pid}, started {ago(running.started_at)}")


def api(named: Api) -> tuple[Finding, OutsideView | None]:
    """Also whom the installation asks, where it lets us in."""
    try:
        with Client(named) as client:
            version = client.about().version
            agents = list(client.agents())
            outside = client.outside()
    except AwayError as error:
        return bad("api", str(error), "look into api.log in the logs of the data directory"), None
    except CommandError as error:
        return bad("api", str(error), "`vigil whoami` tells what you come in by"), None
    return good("api", f"{named.url}, version {version}, {counted(len(agents), 'agent')}"), outside


def postgres(url: str) -> Finding:
    name = "postgres"
    try:
        with psycopg.connect(url, connect_timeout=CONNECT_SECONDS) as connection:
            row = connection.execute(
                "select to_regclass('agents'), current_setting('server_version')"
            )
            tables, version = row.fetchone() or (None, "?")
    except psycopg.Error as error:
        told = str(error).strip().splitlines()[0]
        return bad(name, told, "look into postgres.log, or at VIGIL_DATABASE_URL")
    if tables is None:
        return bad(name, f"version {version}, but the tables are missing", "run `vigil migrate`")
    return good(name, f"version {version.split()[0]}, tables are there")


def meaning(url: str, model: str | None) -> Finding:
    """Whether what is near in meaning is found; `model` is what the installation makes vectors by."""
    name = "search by meaning"
    if model is None:
        return note(name, "is off", "VIGIL_EMBEDDING_MODEL turns it on, as text-embedding-3-small")
    try:
        with psycopg.connect(url, connect_timeout=CONNECT_SECONDS) as connection:
            row = connection.execute(pgvector.THERE).fetchone()
    except psycopg.Error as error:
        told = str(error).strip().splitlines()[0]
        return bad(name, f"by {model}, but PostgreSQL says: {told}", "see what is said of postgres")
    if row != (True,):
        told = f"{model} is named, but PostgreSQL has no pgvector of {pgvector.OLDEST} or later"
        return bad(name, f"{told}: it is off", "give the server pgvector, then run `vigil migrate`")
    return good(name, f"by {model}")


def nats(url: str, credentials: Credentials) -> list[Finding]:
    """The server with its stream, and whatever is wrong with a consumer."""
    try:
        return asyncio.run(_nats(url, credentials))
    except TransientError as error:
        return [bad("nats", str(error), "look into nats.log, or at VIGIL_NATS_URL")]


async def _nats(url: str, credentials: Credentials) -> list[Finding]:
    async with listening(url, credentials) as client:
        held = await stored(client)
        if held is None:
            return [bad("nats", f"{url}, but the stream is missing", "run `vigil migrate`")]
        jetstream = client.jetstream()
        faults = [await fault(jetstream, consumer) for consumer in CONSUMERS.values()]
    wrong = [bad("consumer", each, "run `vigil migrate`") for each in faults if each is not None]
    told = f"{url}, {counted(held.events, 'event')} kept, {held.size_bytes / 1e6:.1f} MB"
    return [good("nats", told), *wrong]


def actors(running: Running) -> Iterator[Finding]:
    """Each process of ours that answers for itself."""
    for name in (*ACTORS, SANDBOX):
        port = running.ports.get(name)
        if port is None:
            continue
        why = unreadiness(port, "/health" if name == SANDBOX else "/health/ready")
        if why is None:
            yield good(name, f"ready, http://127.0.0.1:{port}")
        else:
            yield bad(
                name, f"not ready: {why}", f"look into {name}.log; it is started again by itself"
            )
