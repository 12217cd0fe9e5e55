"""The whole examination, in the order in which things stand on each other."""

import os
from collections.abc import Iterator
from pathlib import Path

from cli.doctor import installation, machine, outside
from cli.doctor.finding import Finding, note
from cli.local.datadir import DataDirectory
from cli.local.running import Running
from cli.outside import Outside
from shared.events.permissions import OPERATOR
from shared.runtime.database_url import database_url_of
from shared.runtime.settings import Settings
from shared.store.reading.shapes import AboutView


def examine(
    settings: Settings, data: Path, url: str | None, corpus: Path | None
) -> Iterator[Finding]:
    """`url` is that of an api that runs elsewhere; without it, what runs on `data` is looked at."""
    directory = DataDirectory(data)
    yield machine.engines()
    yield machine.data_directory(directory)
    yield machine.disk(directory)
    running = directory.running()
    yield from _running(settings, running, url)
    yield from outside.keys(settings)
    answering = Outside.from_settings(settings, corpus)
    yield outside.model_server(settings, answering)
    yield outside.search_service(settings, answering)
    if answering.needs_sandbox:
        yield machine.corpus(answering.corpus)


def _running(settings: Settings, running: Running | None, url: str | None) -> Iterator[Finding]:
    if running is None and url is None and not _named_elsewhere():
        yield note("installation", "none runs here", "start one with `vigil up`")
        return
    if running is not None:
        yield installation.process(running)
    api_url = url or (running.api_url if running else None)
    if api_url is not None:
        finding, about = installation.api(api_url)
        yield finding
        if about is not None:
            yield _asks(about)
    here = running if url is None else None
    if here is not None or _named_elsewhere():
        yield installation.postgres(
            here.database_url if here else database_url_of(settings, OPERATOR)
        )
        yield from installation.nats(here.nats_url if here else settings.nats_url)
    if running is not None:
        yield from installation.actors(running)


def _asks(about: AboutView) -> Finding:
    """What the installation itself uses, whatever this shell's environment says."""
    model = f"model {about.model} of {about.model_server or 'OpenAI'}"
    return note("it asks", f"{model}; searches {about.search_server or 'Tavily'}")


def _named_elsewhere() -> bool:
    return "VIGIL_DATABASE_URL" in os.environ or "VIGIL_NATS_URL" in os.environ
