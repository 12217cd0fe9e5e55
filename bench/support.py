"""What the benchmarks start and use: PostgreSQL and NATS, an owner's token, a browser."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cli.local.nats import EmbeddedNats
from cli.local.ports import free_port
from cli.local.postgres import EmbeddedPostgres
from shared.accounts import credentials
from shared.enums import AccessScope
from shared.runtime.connections import create_database
from shared.runtime.settings import Settings


@contextmanager
def running_engines(
    home: Path, *, durable: bool = False
) -> Iterator[tuple[EmbeddedPostgres, EmbeddedNats]]:
    """Run PostgreSQL and NATS. Without `durable`, data need not survive a power failure."""
    nats = EmbeddedNats(home / "nats", free_port(), home / "nats.log", durable=durable)
    postgres = EmbeddedPostgres(home / "postgres", home / "postgres.log", durable=durable)
    nats.start()
    try:
        yield postgres.start(), nats
    finally:
        postgres.stop()
        nats.stop()


def provision(settings: Settings) -> None:
    """Create database and streams in a separate process, as `vigil up` does."""
    code = "from cli.local.members import run_provision; run_provision()"
    environment = dict(os.environ) | {
        "VIGIL_DATABASE_URL": settings.database_url,
        "VIGIL_NATS_URL": settings.nats_url,
    }
    command = [sys.executable, "-c", code]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)


async def create_owner_token(settings: Settings) -> str:
    """Create a token of the owner in the database, as the API does."""
    database = create_database(settings, "bench", pool_size=1)
    try:
        async with database.transaction() as session:
            owner_id = await credentials.ensure_owner(session, settings.owner)
            _, token = await credentials.create_token(
                session, owner_id, name="bench", scopes=list(AccessScope), lifetime=None
            )
            return token
    finally:
        await database.close()


_CHROMIUM_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM_ARGUMENTS: Final = [
    # Most containers have no user namespaces, which Chromium's own sandbox needs; it opens only our pages.
    "--no-sandbox",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
]


def chromium_path() -> str:
    """The path of Chromium: $VIGIL_CHROMIUM or an installed one. Raises FileNotFoundError."""
    setting = os.environ.get("VIGIL_CHROMIUM")
    path = setting or next(filter(None, map(shutil.which, _CHROMIUM_NAMES)), None)
    if path is None:
        raise FileNotFoundError(
            "There is no Chromium here: `apt install chromium`, or name one by VIGIL_CHROMIUM."
        )
    return path


@contextmanager
def running_server(module: str, *arguments: str) -> Iterator[str]:
    """Run a server in a process of its own, which prints its port first; yields its URL."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()
