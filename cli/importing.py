"""Importing a graph, straight into the database: only the tables' owner may write a whole one."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Final, cast

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from cli.config.discovery import DATABASE_URL, engine_settings, running_on
from cli.direct import user_named
from cli.errors import BadInputError, CommandError
from cli.render.console import err
from shared.graph.backfill import take_names
from shared.graph.transfer.file_reader import BadFileError, ExportedGraph
from shared.graph.transfer.importer import import_graph
from shared.runtime.connections import database_of
from shared.runtime.identity import MIGRATE
from shared.runtime.settings import Settings
from shared.schemas.operations import ImportedAgent, ImportedCounts

STANDARD_INPUT: Final = Path("-")


async def import_file(
    file: Path, *, name: str | None, user: str | None, data: Path | None
) -> ImportedAgent:
    """Raises CommandError where the file cannot be trusted, BadInputError where there is no such user or database."""
    settings = _settings(data)
    database = database_of(settings, MIGRATE, pool_size=1)
    try:
        with _opened(file) as opened:
            exported = ExportedGraph(opened)
            async with database.transaction() as session:
                owner = await user_named(session, settings, user)
                agent = await import_graph(session, owner.id, exported, name)
                agent.budget_usd_per_day = settings.budget_usd_per_day
                agent.budget_calls_per_day = settings.budget_calls_per_day
            await take_names(database)
            counts = ImportedCounts.model_validate(exported.counts)
            return ImportedAgent(agent_id=agent.id, name=agent.name, counts=counts)
    except BadFileError as error:
        raise CommandError(f"{file}: {error}. Nothing of it was kept.") from error
    finally:
        await database.close()


def _settings(data: Path | None) -> Settings:
    """With the database of the installation that runs here, where none is named."""
    if not os.environ.get(DATABASE_URL) and running_on(data) is None:
        raise BadInputError(
            f"no Vigil is running here: start one with `vigil up`, or name its database with {DATABASE_URL}"
        )
    return engine_settings(MIGRATE, data)


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    """With its progress on stderr, where that is a terminal."""
    if file == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    columns = (TextColumn("importing"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    console = err()
    with (
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar,
        bar.open(file, "rb") as opened,
    ):
        yield cast(BufferedReader, opened)
