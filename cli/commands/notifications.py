"""`vigil inbox …` and `vigil destination …`: advice and notices, and where else they are delivered."""

import time
from typing import Annotated, Final
from uuid import UUID

import typer

from cli.client.client import Client
from cli.command import (
    CommandGroup,
    Result,
    api_command,
    command_group,
    print_result,
    with_credentials,
)
from cli.errors import BadInputError, CommandError
from cli.options import AsJson, Limit, Yes
from cli.render.console import counted
from cli.render.notifications import (
    show_created,
    show_destination,
    show_destinations,
    show_inbox,
    show_outcome,
    show_secret,
)
from shared.schemas.notifications import DeliveryResponse, DestinationResponse

TEST_SECONDS: Final = 30.0
"""An attempt takes up to ten seconds, and the notifier checks for deliveries every two."""
POLL_SECONDS: Final = 0.3

# Without a subcommand it lists.
inbox_commands = CommandGroup(name="inbox", add_completion=False, rich_markup_mode="markdown")
destination_commands = command_group(
    "destination", "Webhooks and mail addresses that receive advice, besides the inbox."
)

ItemId = Annotated[UUID, typer.Argument(metavar="ID", help="Id of an item.")]
DestinationName = Annotated[
    str,
    typer.Argument(metavar="DESTINATION", help="Its address or its id, or a part of either."),
]


@inbox_commands.callback(invoke_without_command=True)
@with_credentials
@api_command
def inbox(
    client: Client,
    context: typer.Context,
    everything: Annotated[bool, typer.Option("--all", help="Include what has been read.")] = False,
    mark_read: Annotated[
        bool, typer.Option("--mark-read", help="Mark the listed items as read.")
    ] = False,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """Show unread advice and notices; or read and mark single items."""
    if context.invoked_subcommand is not None:
        return
    items = list(client.inbox(unread=not everything, limit=limit))
    result = Result(items, lambda console: show_inbox(console, items, everything=everything))
    print_result(result, as_json=as_json)
    if mark_read:  # after printing: an item that was not shown stays unread
        for item in items:
            client.mark(item.id, read=True)


@inbox_commands.command("read")
@api_command
def read_item(client: Client, item_id: ItemId) -> Result:
    """Show one item, and mark it as read."""
    item = client.mark(item_id, read=True)
    return Result(item, lambda console: show_inbox(console, [item], everything=True))


@inbox_commands.command("mark")
@api_command
def mark_items(
    client: Client,
    item_id: Annotated[UUID | None, typer.Argument(metavar="ID", help="Id of an item.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Mark all items as read.")] = False,
    unread: Annotated[bool, typer.Option("--unread", help="Mark as unread.")] = False,
) -> Result:
    """Mark an item as read or unread; with --all mark everything as read."""
    if (item_id is None) != everything or (everything and unread):
        raise BadInputError("name an item by its id, optionally with --unread, or say --all")
    if item_id is None:
        marked = client.mark_all_read()
        return Result(marked, f"{counted(marked.marked, 'item')} marked as read.")
    item = client.mark(item_id, read=not unread)
    return Result(item, f"{item.title} is marked as {'un' if unread else ''}read.")


@destination_commands.command("list")
@api_command
def list_destinations(client: Client) -> Result:
    """List the destinations, and how the last delivery to each went."""
    destinations = client.destinations()
    return Result(destinations, lambda console: show_destinations(console, destinations))


@destination_commands.command("add")
@api_command
def add_destination(
    client: Client,
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", help="A URL (https://…), or a mail address.")
    ],
    agent: Annotated[
        str | None,
        typer.Option(metavar="AGENT", help="Only for this agent.", show_default="all agents"),
    ] = None,
) -> Result:
    """Send everything new in the inbox to a webhook or a mail address too.

    A webhook's secret is shown here once. The receiver verifies signatures with it (standardwebhooks.com).
    """
    kind = "webhook" if "://" in address else "mail"
    created = client.create_destination(kind, address, agent=agent)
    return Result(created, lambda console: show_created(console, created))


@destination_commands.command("show")
@api_command
def show(client: Client, name: DestinationName) -> Result:
    """Show a destination and its newest deliveries."""
    details = client.destination(_find_destination(client, name).id)
    return Result(details, lambda console: show_destination(console, details))


@destination_commands.command("test")
@api_command
def test(client: Client, name: DestinationName) -> Result:
    """Make a test delivery, and show its outcome."""
    delivery = client.test_destination(_find_destination(client, name).id)
    delivery = _wait_until_delivered(client, delivery)
    return Result(
        delivery,
        lambda console: show_outcome(console, delivery),
        failed=delivery.status != "delivered",
    )


@destination_commands.command("pause")
@api_command
def pause(client: Client, name: DestinationName) -> Result:
    """Pause a destination: nothing is sent or queued until it is resumed."""
    destination = _find_destination(client, name)
    updated = client.activate_destination(destination.id, active=False)
    return Result(updated, f"{updated.address} receives nothing until it is resumed.")


@destination_commands.command("resume")
@api_command
def resume(client: Client, name: DestinationName) -> Result:
    """Resume a destination: it receives what is new from now on."""
    destination = _find_destination(client, name)
    updated = client.activate_destination(destination.id, active=True)
    return Result(updated, f"{updated.address} receives everything new from now on.")


@destination_commands.command("rotate-secret")
@api_command
def rotate_secret(client: Client, name: DestinationName) -> Result:
    """Give a webhook a new secret, shown once; the old one also signs for another day."""
    secret = client.rotate_secret(_find_destination(client, name).id)
    return Result(secret, lambda console: show_secret(console, secret))


@destination_commands.command("retry")
@api_command
def retry(client: Client, name: DestinationName) -> Result:
    """Retry every failed delivery to a destination."""
    deliveries = client.failed_deliveries(_find_destination(client, name).id)
    retried = [client.retry_delivery(delivery) for delivery in deliveries]
    number = counted(len(retried), "delivery").capitalize()
    return Result(retried, f"{number} will be retried." if retried else "No delivery has failed.")


@destination_commands.command("remove")
@api_command
def remove(client: Client, name: DestinationName, yes: Yes = False) -> Result:
    """Remove a destination and its delivery history."""
    destination = _find_destination(client, name)
    if not yes:
        typer.confirm(f"Remove {destination.address}?", abort=True)
    client.delete_destination(destination.id)
    return Result(destination, f"{destination.address} is removed.")


def _find_destination(client: Client, name: str) -> DestinationResponse:
    """By its address or id, or an unambiguous part of either. Raises CommandError if none or several match."""
    destinations = client.destinations()
    exact = [row for row in destinations if name in (row.address, str(row.id))]
    matches = exact or [
        row for row in destinations if name in row.address or str(row.id).startswith(name.lower())
    ]
    if not matches:
        raise CommandError(f"there is no destination {name!r}: see `vigil destination list`")
    if len(matches) > 1:
        ids = ", ".join(str(row.id)[:8] for row in matches)
        raise CommandError(f"{name!r} matches several destinations: name one by its id: {ids}")
    return matches[0]


def _wait_until_delivered(client: Client, delivery: DeliveryResponse) -> DeliveryResponse:
    """Returns the delivery when it has ended, or as it is after `TEST_SECONDS`."""
    deadline = time.monotonic() + TEST_SECONDS
    while delivery.status == "pending" and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        delivery = client.delivery(delivery)
    return delivery
