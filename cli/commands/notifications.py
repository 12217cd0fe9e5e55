"""`vigil inbox …` and `vigil destination …`: advice and notices, and where else they are delivered."""

import time
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal
from uuid import UUID

import typer
from rich.console import Console

from cli.client.client import Client
from cli.client.http import url_path
from cli.command import Result, api_command, command_group, print_result
from cli.config.durations import parse_seconds
from cli.errors import BadInputError
from cli.options import AsJson, Limit, Yes
from cli.prompts import confirm
from cli.references import Named, find, find_id
from cli.render.notifications import (
    show_created,
    show_destination,
    show_destinations,
    show_inbox,
    show_outcome,
    show_secret,
)
from shared.schemas.base import InboxItemResponse
from shared.schemas.iterations import Marked
from shared.schemas.notifications import (
    CreatedDestination,
    DeliveryResponse,
    DestinationDetails,
    DestinationResponse,
    NewSecret,
)
from shared.wording import plural

TEST_SECONDS: Final = 30.0
"""An attempt takes up to ten seconds, and the notifier checks for deliveries every two."""
POLL_SECONDS: Final = 0.3

# Without a subcommand it lists.
inbox_commands = command_group(
    "inbox",
    "Show unread advice and notices, or open, mark and answer an item.",
    no_args_is_help=False,
)
destination_commands = command_group(
    "destination", "Manage the webhooks and email addresses that also receive inbox items."
)

ItemName = Annotated[str, typer.Argument(metavar="ITEM", help="Title or id of the item.")]
DestinationName = Annotated[
    str, typer.Argument(metavar="DESTINATION", help="Address or id of the destination.")
]


@inbox_commands.callback(invoke_without_command=True)
@api_command
def inbox(
    client: Client,
    context: typer.Context,
    everything: Annotated[bool, typer.Option("--all", help="Include read items.")] = False,
    mark_read: Annotated[
        bool, typer.Option("--mark-read", help="Mark the listed items as read.")
    ] = False,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """Show unread advice and notices, or open, mark and answer an item."""
    if context.invoked_subcommand is not None:
        return
    items = list(client.inbox(unread=not everything, limit=limit))

    def show_items(console: Console, _: object) -> None:
        show_inbox(console, items, everything=everything)

    result = Result(items, show_items)
    print_result(result, as_json=as_json)
    if mark_read:  # after printing: an item that was not shown stays unread
        for item in items:
            client.mark(item.id, read=True)


@inbox_commands.command("read")
@api_command
def read_item(client: Client, item: ItemName) -> Result:
    """Show an item and mark it as read."""
    marked = client.mark(find_item(client, item), read=True)
    return Result(marked, lambda console, _: show_inbox(console, [marked], everything=True))


@inbox_commands.command("mark")
@api_command
def mark_items(
    client: Client,
    item: Annotated[
        str | None, typer.Argument(metavar="ITEM", help="Title or id of the item.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Mark all items as read.")] = False,
    unread: Annotated[bool, typer.Option("--unread", help="Mark as unread.")] = False,
) -> Result:
    """Mark an item as read or unread. With --all, mark all items as read."""
    if (item is None) != everything or (everything and unread):
        raise BadInputError("name an item, or use --all")
    if item is None:
        all_marked = client.post(Marked, "/inbox/read")
        return Result(all_marked, f"{plural(all_marked.marked, 'item')} marked as read.")
    marked = client.mark(find_item(client, item), read=not unread)
    return Result(marked, f"{marked.title} is marked as {'un' if unread else ''}read.")


Reason = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Reason, in a sentence that the agent sees."),
]


@inbox_commands.command("accept")
@api_command
def accept_item(client: Client, item: ItemName, reason: Reason = None) -> Result:
    """Accept advice. The agent takes your decision into account."""
    return _decided(client, find_item(client, item), "accept", reason)


@inbox_commands.command("dismiss")
@api_command
def dismiss_item(client: Client, item: ItemName, reason: Reason = None) -> Result:
    """Dismiss advice or a notice. The agent takes dismissed advice into account."""
    return _decided(client, find_item(client, item), "dismiss", reason)


@inbox_commands.command("reopen")
@api_command
def reopen_item(client: Client, item: ItemName) -> Result:
    """Undo a decision or a snooze."""
    reopened = client.post(InboxItemResponse, url_path("inbox", find_item(client, item), "reopen"))
    return Result(reopened, f"{reopened.title} is open again.")


@inbox_commands.command("snooze")
@api_command
def snooze_item(
    client: Client,
    item: ItemName,
    duration: Annotated[
        str,
        typer.Option(
            "--for", metavar="DURATION", help="How long to hide the item, such as 1h, 1d or 7d."
        ),
    ] = "1d",
) -> Result:
    """Hide an item for a while. It then returns as unread."""
    until = datetime.now(UTC) + timedelta(seconds=parse_seconds(duration))
    path = url_path("inbox", find_item(client, item), "snooze")
    snoozed = client.post(InboxItemResponse, path, {"until": until.isoformat()})
    return Result(snoozed, f"{snoozed.title} returns {until.astimezone():%Y-%m-%d %H:%M}.")


def _decided(
    client: Client, item_id: UUID, outcome: Literal["accept", "dismiss"], reason: str | None
) -> Result:
    item = client.post(InboxItemResponse, url_path("inbox", item_id, outcome))
    if reason is not None:
        body = {"useful": item.useful, "text": reason}
        item = client.post(InboxItemResponse, url_path("inbox", item_id, "feedback"), body)
    return Result(item, f"{item.title} is {item.outcome}.")


@destination_commands.command("list")
@api_command
def list_destinations(client: Client) -> Result:
    """List destinations with the outcome of each one's last delivery."""
    destinations = list(client.pages(DestinationResponse, "/destinations"))
    return Result(destinations, show_destinations)


@destination_commands.command("add")
@api_command
def add_destination(
    client: Client,
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", help="URL (https://…) or email address.")
    ],
    agent: Annotated[
        str | None,
        typer.Option(
            metavar="AGENT", help="Send only the items of this agent.", show_default="all agents"
        ),
    ] = None,
) -> Result:
    """Also send new inbox items to a webhook or an email address.

    The secret of a webhook is shown only once. The receiver needs it to verify signatures (standardwebhooks.com).
    """
    kind = "webhook" if "://" in address else "mail"
    body = {"kind": kind, "address": address, "agent": agent and client.agent_name(agent)}
    created = client.post(CreatedDestination, "/destinations", body)
    return Result(created, show_created)


@destination_commands.command("show")
@api_command
def show(client: Client, name: DestinationName) -> Result:
    """Show a destination and its latest deliveries."""
    details = client.get(DestinationDetails, _path_of(client, name))
    return Result(details, show_destination)


@destination_commands.command("test")
@api_command
def test(client: Client, name: DestinationName) -> Result:
    """Send a test delivery and show its outcome."""
    delivery = client.post(DeliveryResponse, f"{_path_of(client, name)}/test")
    deadline = time.monotonic() + TEST_SECONDS
    path = url_path("destinations", delivery.destination_id, "deliveries", delivery.id)
    while delivery.status == "pending" and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        delivery = client.get(DeliveryResponse, path)
    return Result(
        delivery,
        show_outcome,
        failed=delivery.status != "delivered",
    )


@destination_commands.command("pause")
@api_command
def pause(client: Client, name: DestinationName) -> Result:
    """Pause a destination. Nothing is sent or queued until you resume it."""
    updated = client.patch(DestinationDetails, _path_of(client, name), {"active": False})
    return Result(updated, f"Paused {updated.address}. It receives nothing until you resume it.")


@destination_commands.command("resume")
@api_command
def resume(client: Client, name: DestinationName) -> Result:
    """Resume a destination. It receives inbox items created from now on."""
    updated = client.patch(DestinationDetails, _path_of(client, name), {"active": True})
    return Result(
        updated, f"Resumed {updated.address}. It receives inbox items created from now on."
    )


@destination_commands.command("rotate-secret")
@api_command
def rotate_secret(client: Client, name: DestinationName) -> Result:
    """Create a new secret for a webhook and show it once. The old secret stays valid for one more day."""
    secret = client.post(NewSecret, f"{_path_of(client, name)}/rotate-secret")
    return Result(secret, show_secret)


@destination_commands.command("retry")
@api_command
def retry(client: Client, name: DestinationName) -> Result:
    """Retry every failed delivery to a destination."""
    path = f"{_path_of(client, name)}/deliveries"
    deliveries = list(client.pages(DeliveryResponse, path, status="failed"))
    retried = [client.post(DeliveryResponse, f"{path}/{each.id}/retry") for each in deliveries]
    number = plural(len(retried), "delivery").capitalize()
    return Result(
        retried, f"{number} will be retried." if retried else "There are no failed deliveries."
    )


@destination_commands.command("remove")
@api_command
def remove(client: Client, name: DestinationName, yes: Yes = False) -> Result:
    """Remove a destination and its delivery history."""
    destination = _find_destination(client, name)
    if not yes:
        confirm(f"Remove {destination.address}?")
    client.delete(url_path("destinations", destination.id))
    return Result(destination, f"Removed {destination.address}.")


def find_item(client: Client, reference: str) -> UUID:
    """The inbox item with this title or id. Raises CommandError."""
    return find_id(
        "inbox item",
        reference,
        client.inbox(unread=False, limit=None),
        lambda each: Named(each.id, [each.title]),
        see="vigil inbox --all",
    )


def _find_destination(client: Client, reference: str) -> DestinationResponse:
    """By its address, with or without the scheme, or its id. Raises CommandError."""
    return find(
        "destination",
        reference,
        client.pages(DestinationResponse, "/destinations"),
        lambda each: Named(each.id, [each.address, each.address.partition("://")[2]]),
        see="vigil destination list",
    )


def _path_of(client: Client, reference: str) -> str:
    return url_path("destinations", _find_destination(client, reference).id)
