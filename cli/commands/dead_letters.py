"""`vigil dead-letters …`: what could not be handled, looked at, retried and discarded."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cli.client.target import Address
from cli.options import AsJson, Data, Url

if TYPE_CHECKING:
    from cli.client.client import Client

SHOWN: Final = 8
"""Characters of an id that people are told."""

Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Their ids, or as much of each as is its own."),
]
All = Annotated[bool, typer.Option("--all", help="Every dead letter.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
OfActor = Annotated[str | None, typer.Option(metavar="ACTOR", help="Of one actor only.")]


def list_all(
    actor: OfActor = None,
    limit: Annotated[int, typer.Option(min=1, help="How many to show.")] = 50,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """List the messages that could not be handled and the steps that failed for good, the newest first."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.console import out, print_json
    from cli.render.operations import show_letters

    with Client(api_url(url, data)) as client:
        letters = list(client.dead_letters(actor=actor, limit=limit))
    if as_json:
        print_json(letters)
    else:
        show_letters(out(), letters, limit=limit)


def show(
    letter: Annotated[str, typer.Argument(metavar="ID", help="Its id, or the beginning of it.")],
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Show a dead letter: what it says, why it could not be handled, and what can be done."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.console import out, print_json
    from cli.render.operations import show_letter

    with Client(api_url(url, data)) as client:
        found = client.dead_letter(letter)
    if as_json:
        print_json(found)
    else:
        show_letter(out(), found)


def retry(
    letters: Ids = None,
    everything: All = False,
    yes: Yes = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Publish messages again, and try failed steps again. What fails again comes back."""

    def retried(client: "Client", reference: str) -> str:
        asked = client.retry(reference)
        return f"{asked.subject} will be published again within seconds"

    _each("Retry", retried, letters, everything, yes, url, data)


def discard(
    letters: Ids = None,
    everything: All = False,
    yes: Yes = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Delete dead letters for good. A step that failed stays failed."""

    def discarded(client: "Client", reference: str) -> str:
        client.discard(reference)
        return "is discarded"

    _each("Discard", discarded, letters, everything, yes, url, data)


def _each(
    verb: str,
    order: "Callable[[Client, str], str]",
    named: list[str] | None,
    everything: bool,
    yes: bool,
    url: Address | None,
    data: Path | None,
) -> None:
    """Carries the order out on every letter that it can; the exit code is 1 where one was refused."""
    from cli.client.client import Client
    from cli.client.http import ApiError
    from cli.config.discovery import api_url
    from cli.errors import BadInputError

    if bool(named) == everything:
        raise BadInputError(f"name the dead letters to {verb.lower()} by their ids, or say --all")
    refused = False
    with Client(api_url(url, data)) as client:
        wanted = named or [str(letter.id) for letter in client.dead_letters(limit=None)]
        if not wanted:
            typer.echo("There are no dead letters.")
            return
        if everything and not yes:
            typer.confirm(f"{verb} {_counted(len(wanted))}?", abort=True)
        for reference in wanted:
            try:
                typer.echo(f"{reference[:SHOWN]}: {order(client, reference)}.")
            except ApiError as error:
                refused = True
                typer.echo(f"{reference[:SHOWN]}: {error}", err=True)
    if refused:
        raise typer.Exit(1)


def _counted(number: int) -> str:
    return "the one dead letter" if number == 1 else f"all {number} dead letters"
