"""The whole examination, in the order in which things stand on each other."""

import os
from collections.abc import Iterator
from pathlib import Path

from cli.client.target import Api
from cli.config.discovery import engine_settings
from cli.config.providers import Outside
from cli.doctor import installation, machine, outside
from cli.doctor.finding import Finding, bad, note
from cli.errors import CommandError
from cli.local.data_directory import DataDirectory, Running
from shared.events.permissions import OPERATOR
from shared.runtime.credentials import credentials_of, database_url_of
from shared.runtime.settings import Settings
from shared.schemas.base import OutsideView


def examine(
    settings: Settings, data: Path, api: Api | None, corpus: Path | None
) -> Iterator[Finding]:
    """`api` is the one that commands speak to; where that is another's, the engines of `data` are not looked at."""
    directory = DataDirectory(data)
    yield machine.engines()
    yield machine.data_directory(directory)
    yield machine.disk(directory)
    running = directory.running()
    yield from _running(settings, data, running, api)
    yield from outside.keys(settings)
    answering = Outside.from_settings(settings, corpus)
    yield outside.model_server(settings, answering)
    yield outside.search_service(settings, answering)
    if answering.needs_sandbox:
        yield machine.corpus(answering.corpus)


def _running(
    settings: Settings, data: Path, running: Running | None, api: Api | None
) -> Iterator[Finding]:
    if running is None and api is None and not _named_elsewhere():
        yield note("installation", "none runs here", "start one with `vigil up`")
        return
    if running is not None:
        yield installation.process(running)
    embedding_model = settings.embedding_model
    if api is not None:
        finding, outside_of = installation.api(api)
        yield finding
        if outside_of is not None:
            embedding_model = outside_of.embedding_model
            yield _asks(outside_of)
    here = (
        running if running is not None and api is not None and api.url == running.api_url else None
    )
    if here is not None or _named_elsewhere():
        yield from outside.embedding_price(settings, embedding_model)
        yield from _engines(data, embedding_model)
    if running is not None:
        yield from installation.actors(running)


def _engines(data: Path, embedding_model: str | None) -> Iterator[Finding]:
    """PostgreSQL and NATS, as the operator reaches them."""
    try:
        settings = engine_settings(OPERATOR, data)
        credentials = credentials_of(settings, OPERATOR)
    except CommandError as error:
        yield bad("passwords", str(error), "run `vigil doctor` as the user that runs `vigil up`")
    except OSError as error:
        yield bad("certificates", f"one for NATS cannot be used: {error}", "check VIGIL_NATS_…")
    else:
        database_url = database_url_of(settings, OPERATOR)
        yield installation.postgres(database_url)
        yield installation.meaning(database_url, embedding_model)
        yield from installation.nats(settings.nats_url, credentials)


def _asks(about: OutsideView) -> Finding:
    """What the installation itself uses, whatever this shell's environment says."""
    model = f"model {about.model} of {about.model_server or 'OpenAI'}"
    return note("it asks", f"{model}; searches {about.search_server or 'Tavily'}")


def _named_elsewhere() -> bool:
    return "VIGIL_DATABASE_URL" in os.environ or "VIGIL_NATS_URL" in os.environ
