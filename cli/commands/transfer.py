"""`vigil export`, `vigil import`: a graph with all that it rests on, taken away and brought back."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cli.options import AgentName, AsJson, Data, Url


class Format(StrEnum):
    JSONL = "jsonl"
    GRAPHML = "graphml"
    PROV = "prov"


def export(
    agent: AgentName,
    wanted: Annotated[
        Format,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="jsonl: what `vigil import` reads; graphml: the graph for other tools; prov: W3C PROV-O as JSON-LD.",
        ),
    ] = Format.JSONL,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where to write it.", show_default="stdout"
        ),
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Write an agent's graph with its provenance: types, pages, quotes, nodes, edges and conclusions, as of one moment.

    A file is there only when all of it is. With --json what was written is told as JSON, which asks for --output.
    """
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.errors import BadInputError
    from cli.exporting import export_to_file, export_to_stdout
    from cli.render.console import print_json

    if as_json and output is None:
        raise BadInputError("--json tells of the file: say by --output where to write it")
    with Client(api_url(url, data)) as client:
        if output is None:
            export_to_stdout(client, agent, wanted)
            return
        told = export_to_file(client, agent, wanted, output)
    if as_json:
        print_json(told)
    else:
        typer.echo(f"{told.file} is written: {told.bytes:,} bytes.")


def import_(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            allow_dash=True,
            help="What `vigil export` wrote as jsonl; - reads standard input.",
        ),
    ],
    name: Annotated[
        str | None, typer.Option(help="The new agent's name.", show_default="the one it had")
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Whose it becomes.", show_default="the owner's"),
    ] = None,
    as_json: AsJson = False,
    data: Data = None,
) -> None:
    """Make a new agent, paused, of an exported graph. Every hash and seal is checked; what cannot be trusted is refused.

    Works straight in the database, of the installation that runs on the data directory or that VIGIL_DATABASE_URL names:
    no actor may write a whole graph. Ended in between, it leaves nothing behind.
    """
    import asyncio

    from cli.importing import import_file
    from cli.render.console import out, print_json
    from cli.render.graph import show_imported

    made = asyncio.run(import_file(file, name=name, user=user, data=data))
    if as_json:
        print_json(made)
    else:
        show_imported(out(), made)
