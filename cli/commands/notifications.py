"""`vigil inbox …` and `vigil destination …`: advice and notices, and where else they are delivered."""

import time
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal
from uuid import UUID

import typer
from rich.console import Console

from cli.client.client import Client
from cli.client.http import ApiError
from cli.command import (
    Result,
    api_command,
    command_group,
    print_result,
    with_credentials,
)
from cli.config.durations import parse_seconds
from cli.errors import BadInputError
from cli.options import AsJson, Limit, Yes
from cli.prompts import confirm
from cli.references import Named, as_uuid, find
from cli.render.console import cited, counted
from cli.render.notifications import (
    show_created,
    show_destination,
    show_destinations,
    show_inbox,
    show_outcome,
    show_secret,
)
from shared.schemas.base import InboxItemResponse
from shared.schemas.notifications import DeliveryResponse, DestinationResponse

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
@with_credentials
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

    def show_items(console: Console) -> None:
        show_inbox(console, [with_names(client, item) for item in items], everything=everything)

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
    shown = with_names(client, marked)
    return Result(marked, lambda console: show_inbox(console, [shown], everything=True))


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
        all_marked = client.mark_all_read()
        return Result(all_marked, f"{counted(all_marked.marked, 'item')} marked as read.")
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
    reopened = client.decide(find_item(client, item), "reopen")
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
    snoozed = client.snooze(find_item(client, item), until)
    return Result(snoozed, f"{snoozed.title} returns {until.astimezone():%Y-%m-%d %H:%M}.")


def _decided(
    client: Client, item_id: UUID, outcome: Literal["accept", "dismiss"], reason: str | None
) -> Result:
    item = client.decide(item_id, outcome)
    if reason is not None:
        item = client.give_feedback(item_id, useful=item.useful, text=reason)
    return Result(item, f"{item.title} is {item.outcome}.")


@destination_commands.command("list")
@api_command
def list_destinations(client: Client) -> Result:
    """List destinations with the outcome of each one's last delivery."""
    destinations = client.destinations()
    return Result(destinations, lambda console: show_destinations(console, destinations))


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
    created = client.create_destination(kind, address, agent=agent)
    return Result(created, lambda console: show_created(console, created))


@destination_commands.command("show")
@api_command
def show(client: Client, name: DestinationName) -> Result:
    """Show a destination and its latest deliveries."""
    details = client.destination(_find_destination(client, name).id)
    return Result(details, lambda console: show_destination(console, details))


@destination_commands.command("test")
@api_command
def test(client: Client, name: DestinationName) -> Result:
    """Send a test delivery and show its outcome."""
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
    """Pause a destination. Nothing is sent or queued until you resume it."""
    destination = _find_destination(client, name)
    updated = client.activate_destination(destination.id, active=False)
    return Result(updated, f"Paused {updated.address}. It receives nothing until you resume it.")


@destination_commands.command("resume")
@api_command
def resume(client: Client, name: DestinationName) -> Result:
    """Resume a destination. It receives inbox items created from now on."""
    destination = _find_destination(client, name)
    updated = client.activate_destination(destination.id, active=True)
    return Result(
        updated, f"Resumed {updated.address}. It receives inbox items created from now on."
    )


@destination_commands.command("rotate-secret")
@api_command
def rotate_secret(client: Client, name: DestinationName) -> Result:
    """Create a new secret for a webhook and show it once. The old secret stays valid for one more day."""
    secret = client.rotate_secret(_find_destination(client, name).id)
    return Result(secret, lambda console: show_secret(console, secret))


@destination_commands.command("retry")
@api_command
def retry(client: Client, name: DestinationName) -> Result:
    """Retry every failed delivery to a destination."""
    deliveries = client.failed_deliveries(_find_destination(client, name).id)
    retried = [client.retry_delivery(delivery) for delivery in deliveries]
    number = counted(len(retried), "delivery").capitalize()
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
    client.delete_destination(destination.id)
    return Result(destination, f"Removed {destination.address}.")


def with_names(client: Client, item: InboxItemResponse) -> InboxItemResponse:
    """The item with the names of what its advice cites in place of ids, if the API still has the advice."""
    if item.node_id is None:
        return item
    try:
        advice = client.conclusion(str(item.agent_id), "advice", item.node_id)
    except ApiError:
        return item
    return item.model_copy(update={"content": cited(item.content, advice.citations)})


def find_item(client: Client, reference: str) -> UUID:
    """The inbox item with this title or id. Raises CommandError."""
    if (item_id := as_uuid(reference)) is not None:
        return item_id
    return find(
        "inbox item",
        reference,
        client.inbox(unread=False, limit=None),
        lambda each: Named(each.id, [each.title]),
        see="vigil inbox --all",
    ).id


def _find_destination(client: Client, reference: str) -> DestinationResponse:
    """By its address, with or without the scheme, or its id. Raises CommandError."""
    return find(
        "destination",
        reference,
        client.destinations(),
        lambda each: Named(each.id, [each.address, each.address.partition("://")[2]]),
        see="vigil destination list",
    )


def _wait_until_delivered(client: Client, delivery: DeliveryResponse) -> DeliveryResponse:
    """Returns the delivery when it has ended, or as it is after `TEST_SECONDS`."""
    deadline = time.monotonic() + TEST_SECONDS
    while delivery.status == "pending" and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        delivery = client.delivery(delivery)
    return delivery
