"""Analyses and advice in a terminal, in full."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from cli.show.commitments import commitment_lines
from cli.show.words import cited
from shared.store.reading.shapes import ConclusionView


def show_conclusions(
    console: Console, found: Sequence[ConclusionView], *, noun: str, limit: int
) -> None:
    if not found:
        console.print(f"There is no {noun} yet.")
    for each in found:
        sure = "" if each.confidence is None else f", confidence {each.confidence:.2f}"
        console.print(
            f"[title]{escape(each.name)}[/]  [quiet]{each.word}{sure}, {each.generated_at}, {each.id}[/]",
            soft_wrap=True,
        )
        console.print(Padding(escape(each.summary), (0, 0, 0, 2), expand=False))
        for line in commitment_lines(each):
            console.print(Padding(line, (0, 0, 0, 2), expand=False))
        content = escape(cited(each.content, each.citations))
        console.print(Padding(f"[quiet]{content}[/]", (0, 0, 1, 2), expand=False))
    if len(found) == limit:
        console.print(f"[quiet]The newest {limit}; more with --limit.[/]")
