"""`--corpus` of an agent: a folder that is added to the sandbox of the installation on this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from rich.console import Console

from cli.config.discovery import data_directory, running_on
from cli.config.providers import CheckedCorpus, check_corpus, chosen_corpus, refuse_unreadable
from cli.errors import BadInputError
from cli.render.operations import Activity, show_corpus

if TYPE_CHECKING:
    from cli.client.client import Client

_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


def add_agent_corpus(
    client: "Client", data: Path | None, corpus: Path | None, console: Console
) -> str | None:
    """Adds a folder to the sandbox that runs on the data directory, and returns its name.

    None if no folder is chosen: such agents search the corpus of the installation. Raises BadInputError if the folder
    cannot be read, or the installation that `client` talks to is not on this machine or has no sandbox.
    """
    from sandbox.corpus import CorpusError
    from sandbox.corpus.registry import add_corpus

    folder = chosen_corpus(corpus)
    if folder is None:
        return None
    running = running_on(data)
    if running is None or not _is_same_server(running.api_url, client.url):
        raise BadInputError(
            "--corpus needs an installation on this machine, because its sandbox reads the folder: start one with "
            "`vigil up`, or leave --corpus out"
        )
    providers = client.providers()
    if not providers.search_is_sandbox:
        raise BadInputError(
            "--corpus needs the sandbox, and this installation searches the web: leave --corpus out, or start an "
            "installation without TAVILY_API_KEY"
        )
    checked = read_folder(console, str(folder))
    if providers.model_is_sandbox:
        refuse_unreadable(str(folder), checked)
    show_corpus(console, checked, sandbox_model=providers.model_is_sandbox)
    directory = data_directory(data)
    try:
        return add_corpus(directory.corpora_file, folder, str(client.me().user.id))
    except (CorpusError, OSError) as error:
        raise BadInputError(
            f"the corpus cannot be added to {directory.corpora_file}: {error}"
        ) from error


def read_folder(console: Console, corpus: str) -> CheckedCorpus:
    """Reads a corpus into the cache, with progress on the console. Raises BadInputError."""
    with Activity(console) as activity:
        return check_corpus(
            corpus,
            lambda read, of: activity.say(f"reading the corpus: {read:,} of {of:,} files"),
        )


def _is_same_server(one: str, other: str) -> bool:
    """Whether both are the same URL, apart from the name that they give this machine."""
    first, second = urlsplit(one), urlsplit(other)
    are_local = {first.hostname, second.hostname} <= _LOOPBACK
    return one == other or (are_local and first.port == second.port)
