"""Memories in a terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from cli.show.words import ago
from shared.store.reading.conversation_shapes import MemoryView


def show_memories(console: Console, memories: Sequence[MemoryView], *, forgotten: bool) -> None:
    if not memories:
        told = "Nothing was forgotten." if forgotten else "Nothing is remembered yet."
        console.print(f"{told} [quiet]Tell it something: vigil memory add, or vigil chat.[/]")
    for memory in memories:
        when = ago(memory.forgotten_at or memory.created_at)
        console.print(
            f"[title]{memory.kind}[/] {escape(memory.content)}  [quiet]{when}  {memory.id}[/]",
            soft_wrap=True,
        )
