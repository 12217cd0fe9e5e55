"""`vigil inbox`: advice and notices, listed, read and marked."""

from typing import Annotated
from uuid import UUID

import typer

from cli.options import AsJson, Data, Url

Item = Annotated[UUID, typer.Argument(metavar="ID", help="Id of an item.")]


def inbox(
    context: typer.Context,
    everything: Annotated[bool, typer.Option("--all", help="What has been read, too.")] = False,
    mark_read: Annotated[
        bool, typer.Option("--mark-read", help="Mark what is shown as read.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many to show.")] = 50,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Show the advice and notices that have not been read yet; or read and mark single items."""
    if context.invoked_subcommand is not None:
        return
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.console import out, print_json
    from cli.render.notifications import show_inbox

    with Client(api_url(url, data)) as client:
        items = list(client.inbox(unread=not everything, limit=limit))
        if as_json:
            print_json(items)
        else:
            show_inbox(out(), items, everything=everything)
        if mark_read:
            for item in items:
                client.mark(item.id, read=True)


def read(item: Item, as_json: AsJson = False, url: Url = None, data: Data = None) -> None:
    """Show one item, and mark it as read."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.console import out, print_json
    from cli.render.notifications import show_inbox

    with Client(api_url(url, data)) as client:
        found = client.mark(item, read=True)
    if as_json:
        print_json(found)
    else:
        show_inbox(out(), [found], everything=True)


def mark(
    item: Annotated[UUID | None, typer.Argument(metavar="ID", help="Id of an item.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Everything, as read.")] = False,
    unread: Annotated[bool, typer.Option("--unread", help="As not read.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Mark an item as read, or as not read; with --all everything as read."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.errors import BadInputError
    from cli.render.console import counted, harmless, print_json
    from shared.schemas.iterations import Marked

    if (item is None) != everything or (everything and unread):
        raise BadInputError("name an item by its id, with --unread or not, or say --all")
    with Client(api_url(url, data)) as client:
        told = client.mark_all_read() if item is None else client.mark(item, read=not unread)
    if as_json:
        print_json(told)
    elif isinstance(told, Marked):
        typer.echo(f"{counted(told.marked, 'item')} marked as read.")
    else:
        typer.echo(f"{harmless(told.title)} is marked as {'not ' if unread else ''}read.")
