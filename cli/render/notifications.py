"""Inbox and destinations in a terminal."""

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from cli.references import short_ids
from cli.render.console import ago, clip, short_id
from cli.render.iterations import commitment_lines
from shared.schemas.base import InboxItemResponse
from shared.schemas.notifications import (
    CreatedDestination,
    DeliveryResponse,
    DestinationDetails,
    DestinationResponse,
    NewSecret,
)


def show_inbox(console: Console, items: Sequence[InboxItemResponse], *, everything: bool) -> None:
    if not items:
        text = "The inbox is empty." if everything else "There is nothing new in the inbox."
        more = "" if everything else " To include read items, use `vigil inbox --all`."
        console.print(f"{text} [quiet]Advice is rare by design.{more}[/]", soft_wrap=True)
    ids = short_ids([item.id for item in items])
    for item in items:
        new = "" if item.read_at else "[warn]●[/] "
        console.print(
            f"{new}[title]{escape(item.title)}[/]  "
            f"[agent]{escape(item.agent_name)}[/] [quiet]{ago(item.created_at)}, {ids[item.id]}[/]",
            soft_wrap=True,
        )
        console.print(Padding(escape(item.summary), (0, 0, 0, 2), expand=False))
        for line in commitment_lines(item, with_confidence=True):
            console.print(Padding(line, (0, 0, 0, 2), expand=False))
        content = f"[quiet]{escape(item.content)}[/]" if item.content else ""
        console.print(Padding(content, (0, 0, 1, 2), expand=False))


_STYLES: Final = {"delivered": "good", "failed": "bad", "pending": "warn"}


def show_created(console: Console, created: CreatedDestination) -> None:
    console.print(
        f"New inbox items {_owner(created)} are also sent to [title]{escape(created.address)}[/].",
        soft_wrap=True,
    )
    if created.secret is not None:
        _print_secret(console, created.secret)
    console.print(
        f"[quiet]To test it:[/] [link]vigil destination test {short_id(created.id)}[/]",
        soft_wrap=True,
    )


def show_secret(console: Console, new: NewSecret) -> None:
    _print_secret(console, new.secret)
    if new.previous_signs_until is not None:
        until = f"{new.previous_signs_until.astimezone():%Y-%m-%d %H:%M}"
        console.print(f"[quiet]The previous secret stays valid until {until}.[/]", soft_wrap=True)


def show_destinations(console: Console, destinations: Sequence[DestinationResponse]) -> None:
    if not destinations:
        console.print(
            "There are no destinations. Add one with `vigil destination add ADDRESS`, a URL or an email address.",
            soft_wrap=True,
        )
        return
    table = Table(box=None, pad_edge=False, header_style="quiet", padding=(0, 2, 0, 0))
    for column in ("Id", "Kind", "Address", "Of", "Last delivery"):
        table.add_column(column, no_wrap=column in ("Id", "Kind"))
    for row in destinations:
        table.add_row(
            short_id(row.id),
            row.kind,
            escape(clip(row.address, 60)),
            f"[agent]{escape(row.agent_name)}[/]" if row.agent_name else "all agents",
            _state(row),
        )
    console.print(table)


def show_destination(console: Console, destination: DestinationDetails) -> None:
    console.print(
        f"[title]{escape(destination.address)}[/]  [quiet]{short_id(destination.id)}[/]",
        soft_wrap=True,
    )
    console.print(
        f"  {destination.kind}, {_owner(destination)}; {_activity(destination)}", soft_wrap=True
    )
    if not destination.deliveries:
        console.print("  [quiet]There are no deliveries yet.[/]")
        return
    table = Table(box=None, pad_edge=False, header_style="quiet", padding=(0, 2, 0, 0))
    for column in ("  Delivery", "When", "What", "Outcome"):
        table.add_column(column, no_wrap=column != "Outcome")
    for delivery in destination.deliveries:
        table.add_row(
            f"  {short_id(delivery.id)}",
            f"[quiet]{ago(delivery.created_at)}[/]",
            escape(clip(delivery.title or "a test", 40)),
            _outcome(delivery),
        )
    console.print(table)


def show_outcome(console: Console, delivery: DeliveryResponse) -> None:
    if delivery.status == "pending":
        console.print(
            "[warn]The test has not been delivered yet.[/] Check with `vigil top` that the notifier is running.",
            soft_wrap=True,
        )
        return
    console.print(f"Test: {_outcome(delivery)}.", soft_wrap=True)


def _print_secret(console: Console, secret: str) -> None:
    console.print(f"\n  Secret: [title]{escape(secret)}[/]", soft_wrap=True)
    console.print(
        "  [quiet]It is shown only once. The receiver needs it to verify signatures.[/]\n"
    )


def _owner(destination: DestinationResponse) -> str:
    return f"from {escape(destination.agent_name)}" if destination.agent_name else "from all agents"


def _state(destination: DestinationResponse) -> str:
    last = destination.last_delivery
    text = f"{_outcome(last)} [quiet]{ago(last.created_at)}[/]" if last else "[quiet]none yet[/]"
    return text if destination.active else f"{_activity(destination)}; {text}"


def _activity(destination: DestinationResponse) -> str:
    if destination.active:
        return "[good]active[/]"
    why = destination.stop_reason
    return f"[bad]stopped[/]: {escape(why)}" if why else "[warn]paused[/]"


def _outcome(delivery: DeliveryResponse) -> str:
    text = f"[{_STYLES[delivery.status]}]{delivery.status}[/]"
    if delivery.status_code is not None and delivery.error is None:
        text += f" ({delivery.status_code})"
    if delivery.error is not None:
        text += f": {escape(clip(delivery.error, 100))}"
    if delivery.next_attempt_at is not None and delivery.attempts:
        text += f"; next attempt {ago(delivery.next_attempt_at)}"
    return text
