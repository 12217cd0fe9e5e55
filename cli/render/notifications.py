"""Inbox and destinations in a terminal."""

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from cli.render.console import ago, clip
from cli.render.iterations import commitment_lines
from shared.schemas.base import InboxItemView
from shared.schemas.notifications import (
    CreatedDestination,
    DeliveryView,
    DestinationDetails,
    DestinationView,
    NewSecret,
)


def show_inbox(console: Console, items: Sequence[InboxItemView], *, everything: bool) -> None:
    if not items:
        told = "The inbox is empty." if everything else "Nothing new in the inbox."
        more = "" if everything else " Advice that was read: vigil inbox --all."
        console.print(f"{told} [quiet]Advice is rare, by design.{more}[/]", soft_wrap=True)
    for item in items:
        new = "" if item.read_at else "[warn]●[/] "
        console.print(
            f"{new}[title]{escape(item.title)}[/]  "
            f"[agent]{escape(item.agent_name)}[/] [quiet]{ago(item.created_at)}, {item.id}[/]",
            soft_wrap=True,
        )
        console.print(Padding(escape(item.summary), (0, 0, 0, 2), expand=False))
        for line in commitment_lines(item, with_confidence=True):
            console.print(Padding(line, (0, 0, 0, 2), expand=False))
        told = f"[quiet]{escape(item.content)}[/]" if item.content else ""
        console.print(Padding(told, (0, 0, 1, 2), expand=False))


ID_CHARACTERS: Final = 8
_STYLES: Final = {"delivered": "good", "failed": "bad", "pending": "warn"}


def show_created(console: Console, made: CreatedDestination) -> None:
    console.print(
        f"What comes into the inbox {_whose(made)} goes to [title]{escape(made.address)}[/] too.",
        soft_wrap=True,
    )
    if made.secret is not None:
        _tell_secret(console, made.secret)
    short = str(made.id)[:ID_CHARACTERS]
    console.print(f"[quiet]Try it:[/] [link]vigil destination test {short}[/]", soft_wrap=True)


def show_secret(console: Console, given: NewSecret) -> None:
    _tell_secret(console, given.secret)
    if given.previous_signs_until is not None:
        until = f"{given.previous_signs_until.astimezone():%Y-%m-%d %H:%M}"
        console.print(f"[quiet]The one before it signs too until {until}.[/]", soft_wrap=True)


def show_destinations(console: Console, found: Sequence[DestinationView]) -> None:
    if not found:
        console.print(
            "Nothing is sent anywhere: vigil destination add https://… or you@example.org",
            soft_wrap=True,
        )
        return
    table = Table(box=None, pad_edge=False, header_style="quiet", padding=(0, 2, 0, 0))
    for column in ("Id", "Kind", "Address", "Of", "Last delivery"):
        table.add_column(column, no_wrap=column in ("Id", "Kind"))
    for each in found:
        table.add_row(
            str(each.id)[:ID_CHARACTERS],
            each.kind,
            escape(clip(each.address, 60)),
            f"[agent]{escape(each.agent_name)}[/]" if each.agent_name else "all agents",
            _state(each),
        )
    console.print(table)


def show_destination(console: Console, found: DestinationDetails) -> None:
    console.print(f"[title]{escape(found.address)}[/]  [quiet]{found.id}[/]", soft_wrap=True)
    console.print(f"  {found.kind}, {_whose(found)}; {_activity(found)}", soft_wrap=True)
    if not found.deliveries:
        console.print("  [quiet]Nothing was sent there yet.[/]")
        return
    table = Table(box=None, pad_edge=False, header_style="quiet", padding=(0, 2, 0, 0))
    for column in ("  Delivery", "When", "What", "How it went"):
        table.add_column(column, no_wrap=column != "How it went")
    for each in found.deliveries:
        table.add_row(
            f"  {str(each.id)[:ID_CHARACTERS]}",
            f"[quiet]{ago(each.created_at)}[/]",
            escape(clip(each.title or "a test", 40)),
            _outcome(each),
        )
    console.print(table)


def show_outcome(console: Console, tested: DeliveryView) -> None:
    if tested.status == "pending":
        console.print(
            "[warn]Nobody has delivered it yet[/]: does the notifier run? See vigil top.",
            soft_wrap=True,
        )
        return
    console.print(f"The test is {_outcome(tested)}.", soft_wrap=True)


def _tell_secret(console: Console, secret: str) -> None:
    console.print(f"\n  Secret: [title]{escape(secret)}[/]", soft_wrap=True)
    console.print("  [quiet]It is shown now and never again; the receiver needs it.[/]\n")


def _whose(destination: DestinationView) -> str:
    return f"of {escape(destination.agent_name)}" if destination.agent_name else "of all agents"


def _state(destination: DestinationView) -> str:
    last = destination.last_delivery
    told = f"{_outcome(last)} [quiet]{ago(last.created_at)}[/]" if last else "[quiet]none yet[/]"
    return told if destination.active else f"{_activity(destination)}; {told}"


def _activity(destination: DestinationView) -> str:
    if destination.active:
        return "[good]active[/]"
    why = destination.stopped_because
    return f"[bad]stopped[/]: {escape(why)}" if why else "[warn]paused[/]"


def _outcome(delivery: DeliveryView) -> str:
    told = f"[{_STYLES[delivery.status]}]{delivery.status}[/]"
    if delivery.status_code is not None and delivery.error is None:
        told += f" ({delivery.status_code})"
    if delivery.error is not None:
        told += f": {escape(clip(delivery.error, 100))}"
    if delivery.next_attempt_at is not None and delivery.attempts:
        told += f"; again {ago(delivery.next_attempt_at)}"
    return told
