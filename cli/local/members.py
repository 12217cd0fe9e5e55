"""The processes of a local installation, what each one runs, and their ports."""

import importlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from cli.local.ports import choose_port

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from shared.runtime.settings import Settings

CONSUMER_SERVICES: Final = (
    "scheduler",
    "observer",
    "researcher",
    "aggregator",
    "analyzer",
    "adviser",
    "assistant",
    "notifier",
)
PROCESSES: Final[Mapping[str, Sequence[str]]] = {
    "workers": ("observer", "researcher", "analyzer", "adviser", "assistant"),
    "coordinator": ("scheduler", "aggregator", "notifier"),
}
"""Which services share a process, unless each has its own."""
API: Final = "api"
SANDBOX: Final = "sandbox"
PRELOAD: Final = (
    *(f"services.{service}.app" for service in CONSUMER_SERVICES),
    "services.api.app",
    "sandbox.app",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto",
    "cli.app",
    "cli.local.members",
)
"""Modules that the forkserver imports once for all services; not those for migrations, which one process needs once."""


def build_once() -> None:
    """Builds the API and every service, and forgets them: processes that are forked later share what that created."""
    from services.api.app import build as build_api
    from shared.runtime.settings import load_settings

    with _only_variables({"OPENAI_API_KEY": "unused", "TAVILY_API_KEY": "unused"}):
        settings = load_settings()
        for service in CONSUMER_SERVICES:
            importlib.import_module(f"services.{service}.app").build(settings)
        build_api(settings)


@contextmanager
def _only_variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Within the block, the environment has only these variables."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def run_service(name: str) -> None:
    from shared.runtime.process import run

    run(name, importlib.import_module(f"services.{name}.app").build)


def run_services(name: str, environments: Mapping[str, Mapping[str, str]]) -> None:
    """Runs services in this process, each with environment variables of its own in addition."""
    from shared.runtime.process import run_together

    builds = {each: importlib.import_module(f"services.{each}.app").build for each in environments}
    run_together(name, builds, environments)


def run_api() -> None:
    from services.api.app import serve

    serve()


def run_sandbox(port: int, corpus: str, registry: str, cache: str, key: str) -> None:
    """Exits with a message if the corpus or the pace cannot be used."""
    from pathlib import Path

    from cli.config.providers import sandbox_pace
    from sandbox.app import serve
    from sandbox.corpus import CorpusError
    from sandbox.settings import SandboxSettings

    settings = SandboxSettings(
        port=port,
        corpus=corpus,
        registry=Path(registry),
        key=key,
        cache_directory=Path(cache),
        pace_seconds=sandbox_pace(),
    )
    try:
        serve(settings)
    except CorpusError as error:
        sys.exit(f"{error}")


def run_provision(refusals: "Connection | None" = None) -> None:
    """Creates the database, its tables, roles, the owner, the stream and its consumers, or brings them up to date.

    No service runs yet, and the time since the last one ran does not count as time without progress of iterations.
    On an expected error exits with status 1, and sends the message to `refusals`.
    """
    import asyncio

    from shared.errors import VigilError
    from shared.runtime import logging
    from shared.runtime.settings import Settings

    settings = Settings()
    logging.configure(service="provision", log_format=settings.log_format, level=settings.log_level)
    try:
        _ensure_database(settings.database_url)
        asyncio.run(prepare(settings))
    except VigilError as error:
        if refusals is not None:
            refusals.send(str(error))
        sys.exit(str(error))


async def prepare(settings: "Settings") -> None:
    """Provisions the installation, and gives each running iteration its whole time without progress."""
    from shared.runtime.connections import create_database
    from shared.runtime.identity import MIGRATE
    from shared.runtime.provision import provision
    from shared.workflow.iterations import restart_deadlines

    await provision(settings)
    database = create_database(settings, MIGRATE, pool_size=1)
    try:
        async with database.transaction() as session:
            await restart_deadlines(settings.iteration_deadline_seconds).execute(session)
    finally:
        await database.close()


def _ensure_database(url: str) -> None:
    import psycopg
    from psycopg import sql
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    name = str(conninfo_to_dict(url)["dbname"])
    with psycopg.connect(make_conninfo(url, dbname="postgres"), autocommit=True) as connection:
        row = connection.execute("select 1 from pg_database where datname = %s", (name,))
        if row.fetchone() is None:
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))


NATS: Final = "nats"

DOCUMENTED_PORTS: Final[Mapping[str, int]] = {API: 8080, NATS: 4222}
"""The documented ports."""

# Below the kernel's ephemeral range, so that no outgoing connection takes one in the meantime.
UP_PORTS: Final = range(12_000, 20_000)
DEMO_PORTS: Final = range(20_000, 32_000)

_INTERNAL: Final = (SANDBOX, *PROCESSES, *CONSUMER_SERVICES)


def usual_ports(api_port: int) -> dict[str, int]:
    """The documented ports, or free ones if those are taken; internal ports differ for each supervisor process.

    Otherwise two installations that start at the same time would find the same ports free, and one would use the
    other's services.
    """
    ports = {**DOCUMENTED_PORTS, API: api_port}
    return _choose_ports([*ports.items(), *_of_this_process(_INTERNAL, UP_PORTS)])


def demo_ports() -> dict[str, int]:
    """Free ports away from the usual ones, different for each process, so that parallel demos do not collide."""
    return _choose_ports(_of_this_process((*DOCUMENTED_PORTS, *_INTERNAL), DEMO_PORTS))


def busy_ports(ports: Mapping[str, int], api_port: int) -> list[int]:
    """The documented ports that are in use, so that the installation uses others."""
    usual = {**DOCUMENTED_PORTS, API: api_port}
    return [port for name, port in usual.items() if ports[name] != port]


def _of_this_process(names: Sequence[str], ports: range) -> list[tuple[str, int]]:
    first = ports.start + os.getpid() * 2 * len(names) % (len(ports) - len(names))
    return [(name, first + place) for place, name in enumerate(names)]


def _choose_ports(preferred: Iterable[tuple[str, int]]) -> dict[str, int]:
    ports: dict[str, int] = {}
    for name, port in preferred:
        ports[name] = choose_port(port, avoid=ports.values())
    return ports
