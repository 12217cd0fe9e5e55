"""`vigil inbox`: advice, and notices."""

from typing import Annotated

import typer

from cli.options import AsJson, Data, Url


def inbox(
    everything: Annotated[bool, typer.Option("--all", help="What has been read, too.")] = False,
    mark_read: Annotated[
        bool, typer.Option("--mark-read", help="Mark what is shown as read.")
    ] = False,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Show the advice and notices that have not been read yet."""
    from cli.client import Client
    from cli.installation import api_url
    from cli.show.console import out
    from cli.show.inbox import show_inbox
    from cli.show.json import print_json

    with Client(api_url(url, data)) as client:
        items = list(client.inbox(unread=not everything, limit=None))
        if as_json:
            print_json(items)
        else:
            show_inbox(out(), items, everything=everything)
        if mark_read:
            for item in items:
                client.mark(item.id, read=True)
