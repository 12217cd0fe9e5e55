"""What was imported, in a terminal."""

from rich.console import Console
from rich.markup import escape

from cli.show.words import counted
from shared.store.reading.transfer_shapes import ImportedAgent


def show_imported(console: Console, made: ImportedAgent) -> None:
    counts = made.counts
    console.print(
        f"[agent]{escape(made.name)}[/] has {counted(counts.nodes, 'node')} and {counted(counts.edges, 'edge')}, "
        f"resting on {counted(counts.evidence, 'quote')} of {counted(counts.sources, 'page')}; every seal was checked.",
        soft_wrap=True,
    )
    console.print(f"It is paused: [quiet]vigil agent resume {made.agent_id}[/]", soft_wrap=True)
