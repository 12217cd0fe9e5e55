"""`vigil export` and `vigil import`: a graph with its provenance, as a file."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import typer

from cli.client.client import Client
from cli.command import Result, api_command, print_result
from cli.errors import AwayError, BadInputError, CommandError
from cli.options import AgentName, AsJson, Data
from cli.render.console import err
from cli.render.graph import show_imported
from cli.render.operations import Activity
from shared.schemas.operations import ExportedFile
from shared.wording import bytes_of

PARTIAL_SUFFIX: Final = ".part"


class Format(StrEnum):
    JSONL = "jsonl"
    GRAPHML = "graphml"
    PROV = "prov"


@api_command
def export(
    client: Client,
    agent: AgentName,
    file_format: Annotated[
        Format,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="File format: jsonl for `vigil import`, graphml for graph tools, or prov for W3C PROV-O as JSON-LD.",
        ),
    ] = Format.JSONL,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="File to write.", show_default="stdout"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Export a consistent snapshot of an agent's graph, including its provenance.

    The export contains types, pages, quotes, nodes, edges and conclusions. The file appears only when it is complete.
    --json describes the written file and requires --output.
    """
    if as_json and output is None:
        raise BadInputError("--json requires --output")
    if output is None:
        export_to_stdout(client, agent, file_format)
        return
    exported = export_to_file(client, agent, file_format, output)
    text = f"Wrote {exported.bytes:,} bytes to {exported.file}."
    print_result(Result(exported, text), as_json=as_json)


def import_(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="File that `vigil export` wrote as jsonl; - reads standard input.",
        ),
    ],
    name: Annotated[
        str | None, typer.Option(help="Name of the new agent.", show_default="name in the file")
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="User who will own the agent.", show_default="the owner"),
    ] = None,
    as_json: AsJson = False,
    data: Data = None,
) -> None:
    """Create a paused agent from an exported graph, after checking every hash and seal.

    Writes directly to the database, because no service may write a whole graph. Uses VIGIL_DATABASE_URL, or the database
    of the installation that uses the data directory. If the import fails or is interrupted, nothing is stored.
    """
    from cli.database_access import STANDARD_INPUT, import_file

    if file != STANDARD_INPUT:
        check_readable(file)
    agent = asyncio.run(import_file(file, name=name, user=user, data=data))
    print_result(Result(agent, show_imported), as_json=as_json)


def check_readable(file: Path) -> None:
    """Raises BadInputError if the file cannot be read."""
    try:
        file.open("rb").close()
    except OSError as error:
        raise BadInputError(f"{file} cannot be read: {error.strerror or error}") from None


def export_to_stdout(client: Client, agent: str, file_format: str) -> None:
    """Raises AwayError if the export is cut off."""
    with Activity(err()) as activity:
        _write(_export(client, agent, file_format, activity.say), sys.stdout.buffer)
        sys.stdout.buffer.flush()


def export_to_file(client: Client, agent: str, file_format: str, file: Path) -> ExportedFile:
    """Replaces `file` when the export is complete. Raises AwayError if it is cut off.

    A device or a pipe is written to, not replaced.
    """
    is_special = file.exists() and not file.is_file()
    partial = file if is_special else file.with_name(file.name + PARTIAL_SUFFIX)
    try:
        with partial.open("wb") as output, Activity(err()) as activity:
            size_bytes = _write(_export(client, agent, file_format, activity.say), output)
            output.flush()
            if not is_special:
                os.fsync(output.fileno())
        if not is_special:
            partial.replace(file)
    except OSError as error:
        raise CommandError(
            f"{file} cannot be written: {error.strerror or error}; name another file with --output"
        ) from error
    finally:
        if not is_special:
            partial.unlink(missing_ok=True)
    return ExportedFile(file=str(file), format=file_format, bytes=size_bytes)


def _export(
    client: Client, agent: str, file_format: str, say: Callable[[str], None]
) -> Iterator[bytes]:
    """The chunks of the export; says meanwhile how much there was."""
    size_bytes = 0
    say("exporting")
    for chunk in client.download(client.agent_path(agent, "export"), format=file_format):
        size_bytes += len(chunk)
        say(f"exporting: {bytes_of(size_bytes)}")
        yield chunk


def _write(chunks: Iterator[bytes], output: BinaryIO) -> int:
    size_bytes = 0
    try:
        for chunk in chunks:
            output.write(chunk)
            size_bytes += len(chunk)
    except AwayError as error:
        if not size_bytes:
            raise
        raise AwayError(
            f"the export stopped after {size_bytes:,} bytes ({error}); run it again"
        ) from error
    return size_bytes
