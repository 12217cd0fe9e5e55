"""Who lives in a local installation, and the functions that each of them runs in a process of its own."""

import asyncio
import importlib
import sys
from multiprocessing.connection import Connection
from typing import Final

ACTORS: Final = (
    "scheduler",
    "observer",
    "researcher",
    "aggregator",
    "analyzer",
    "adviser",
    "concierge",
    "courier",
)
API: Final = "api"
SANDBOX_PACE_SECONDS: Final = 0.03
"""Between the pieces of a streamed answer: as quick as a quick model writes."""
SANDBOX: Final = "sandbox"

PRELOAD: Final = (
    *(f"services.{actor}.app" for actor in ACTORS),
    "services.api.app",
    "sandbox.app",
    "shared.runtime.provision",
    "alembic.autogenerate",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto",
    "cli.main",
    "cli.local.household",
)
"""What the forkserver imports once for all of them."""


def run_actor(name: str) -> None:
    from shared.runtime.process import run

    run(name, importlib.import_module(f"services.{name}.app").build)


def run_api() -> None:
    from services.api.app import serve

    serve()


def run_sandbox(port: int, corpus: str, cache: str, key: str) -> None:
    """Ends with status 2 where the corpus cannot be used."""
    from pathlib import Path

    from sandbox.app import serve
    from sandbox.corpus import CorpusError
    from sandbox.settings import SandboxSettings

    settings = SandboxSettings(
        port=port,
        corpus=corpus,
        key=key,
        cache_directory=Path(cache),
        pace_seconds=SANDBOX_PACE_SECONDS,
    )
    try:
        serve(settings)
    except CorpusError as error:
        sys.exit(f"{error}")


def run_provision(refusals: Connection | None = None) -> None:
    """The database, its tables, roles, the owner, the stream and its consumers: made, or brought up to date.

    Ends with status 1 where that is refused on purpose, and sends the reason in words to `refusals`.
    """
    from shared.errors import VigilError
    from shared.runtime import logs
    from shared.runtime.provision import provision
    from shared.runtime.settings import Settings

    settings = Settings()
    logs.configure(actor="provision", log_format=settings.log_format, level=settings.log_level)
    try:
        _ensure_database(settings.database_url)
        asyncio.run(provision(settings))
    except VigilError as error:
        if refusals is not None:
            refusals.send(str(error))
        sys.exit(str(error))


def _ensure_database(url: str) -> None:
    import psycopg
    from psycopg import sql
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    name = str(conninfo_to_dict(url)["dbname"])
    with psycopg.connect(make_conninfo(url, dbname="postgres"), autocommit=True) as connection:
        found = connection.execute("select 1 from pg_database where datname = %s", (name,))
        if found.fetchone() is None:
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
