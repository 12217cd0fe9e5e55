"""Inbox and destinations in a terminal."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.markup import escape

from cli.references import short_ids
from cli.render.console import indented, print_rows, short_id, with_short_citations
from cli.render.iterations import commitment_lines
from shared.graph.conclusions.citations import without_citations
from shared.schemas.base import InboxItemResponse
from shared.schemas.notifications import (
    CreatedDestination,
    DeliveryResponse,
    DestinationDetails,
    DestinationResponse,
    NewSecret,
)
from shared.wording import ago, clip


def show_inbox(console: Console, items: Sequence[InboxItemResponse], *, everything: bool) -> None:
    if not items:
        text = "The inbox is empty." if everything else "There is nothing new in the inbox."
        more = "" if everything else " To include read items, use `vigil inbox --all`."
        console.print(f"{text} [quiet]Advice is rare by design.{more}[/]")
    ids = short_ids([item.id for item in items])
    for item in items:
        new = "" if item.read_at else "[warn]●[/] "
        is_over = item.position is not None and item.position.ended_at is not None
        state = f" [warn]{item.position.state}[/]" if item.position and is_over else ""
        console.print(
            f"{new}[title]{escape(item.title)}[/]{state}  "
            f"[agent]{escape(item.agent_name)}[/] [quiet]{ago(item.created_at)}, {ids[item.id]}[/]"
        )
        console.print(indented(escape(without_citations(item.summary))))
        for line in commitment_lines(item, with_confidence=True):
            console.print(indented(line))
        content = escape(with_short_citations(item.content))
        content = f"[quiet]{content}[/]" if content else ""
        console.print(indented(content, after=1))


_STYLES: Final = {"delivered": "good", "failed": "bad", "pending": "warn"}


def show_created(console: Console, created: CreatedDestination) -> None:
    console.print(
        f"New inbox items {_owner(created)} are also sent to [title]{escape(created.address)}[/]."
    )
    if created.secret is not None:
        _print_secret(console, created.secret)
    console.print(f"[quiet]To test it:[/] [link]vigil destination test {short_id(created.id)}[/]")


def show_secret(console: Console, new: NewSecret) -> None:
    _print_secret(console, new.secret)
    if new.previous_signs_until is not None:
        until = f"{new.previous_signs_until.astimezone():%Y-%m-%d %H:%M}"
        console.print(f"[quiet]The previous secret stays valid until {until}.[/]")


def show_destinations(console: Console, destinations: Sequence[DestinationResponse]) -> None:
    columns: Mapping[str, Callable[[DestinationResponse], str]] = {
        "=Id": lambda row: short_id(row.id),
        "=Kind": lambda row: row.kind,
        "Address": lambda row: escape(clip(row.address, 60)),
        "Of": lambda row: f"[agent]{escape(row.agent_name)}[/]" if row.agent_name else "all agents",
        "Last delivery": _state,
    }
    empty = "There are no destinations. Add one with `vigil destination add ADDRESS`, a URL or an email address."
    print_rows(console, destinations, columns, empty=empty)


def show_destination(console: Console, destination: DestinationDetails) -> None:
    console.print(f"[title]{escape(destination.address)}[/]  [quiet]{short_id(destination.id)}[/]")
    console.print(f"  {destination.kind}, {_owner(destination)}; {_activity(destination)}")
    columns: Mapping[str, Callable[[DeliveryResponse], str]] = {
        "=  Delivery": lambda delivery: f"  {short_id(delivery.id)}",
        "=When": lambda delivery: f"[quiet]{ago(delivery.created_at)}[/]",
        "=What": lambda delivery: escape(clip(delivery.title or "a test", 40)),
        "Outcome": _outcome,
    }
    empty = "  [quiet]There are no deliveries yet.[/]"
    print_rows(console, destination.deliveries, columns, empty=empty)


def show_outcome(console: Console, delivery: DeliveryResponse) -> None:
    if delivery.status == "pending":
        console.print(
            "[warn]The test has not been delivered yet.[/] Check with `vigil top` that the notifier is running."
        )
        return
    console.print(f"Test: {_outcome(delivery)}.")


def _print_secret(console: Console, secret: str) -> None:
    console.print(f"\n  Secret: [title]{escape(secret)}[/]")
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
