"""Doubles and merges in a terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from cli.show.words import ago, counted
from shared.store.reading.merge_shapes import DoubleView, MergeView


def show_made(console: Console, agent: str, made: MergeView) -> None:
    console.print(
        f"{escape(made.gone_name)} has gone into [agent]{escape(made.kept_name or '')}[/]: {_moved(made)}.",
        soft_wrap=True,
    )
    console.print(
        f'[quiet]To undo it: vigil node unmerge "{escape(agent)}" {made.id}[/]', soft_wrap=True
    )


def show_undone(console: Console, undone: MergeView) -> None:
    console.print(
        f"[agent]{escape(undone.gone_name)}[/] is there again, with {_moved(undone)}.",
        soft_wrap=True,
    )


def show_merges(console: Console, merges: Sequence[MergeView]) -> None:
    if not merges:
        console.print("No nodes were made one yet.")
    for each in merges:
        kept = "a node that has gone itself since" if each.kept_name is None else each.kept_name
        undone = "" if each.undone_at is None else f", undone {ago(each.undone_at)}"
        console.print(
            f"{escape(each.gone_name)} [quiet]→[/] [agent]{escape(kept)}[/]  {escape(each.reason)}  "
            f"[quiet]{escape(each.type)}, {_moved(each)}, {ago(each.made_at)}{undone}  {each.id}[/]",
            soft_wrap=True,
        )


def show_doubles(console: Console, doubles: Sequence[DoubleView]) -> None:
    if not doubles:
        console.print("No two nodes are called alike.")
    for each in doubles:
        console.print(
            f"{each.likeness:.2f}  {escape(each.node.name)} [quiet]{each.node.id}[/]  and  "
            f"{escape(each.other.name)} [quiet]{each.other.id}  {escape(each.node.type)}[/]",
            soft_wrap=True,
        )


def _moved(merge: MergeView) -> str:
    spans = counted(merge.evidence, "span")
    return f"{counted(merge.names, 'name')}, {spans} of evidence, {counted(merge.edges, 'edge')}"
