"""The inbox in a terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from cli.show.commitments import commitment_lines
from cli.show.words import ago
from shared.store.reading.shapes import InboxItemView


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
