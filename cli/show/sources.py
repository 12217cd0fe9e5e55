"""Pages that were read, and those that are not believed, in a terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from cli.show.words import ago, counted
from shared.store.reading.retraction_shapes import RetractionView, SourceView


def show_sources(console: Console, found: Sequence[SourceView], *, limit: int) -> None:
    if not found:
        console.print("There are no such pages.")
    for each in found:
        console.print(
            f"[link]{escape(each.url)}[/]  [quiet]fetched {ago(each.fetched_at)}, {each.id}[/]",
            soft_wrap=True,
        )
        if each.title:
            console.print(f"  {escape(each.title)}", soft_wrap=True)
        if each.retracted_at is not None:
            told = f"retracted {ago(each.retracted_at)}: {each.retracted_because}"
            console.print(f"  [warn]{escape(told)}[/]", soft_wrap=True)
    if len(found) == limit:
        console.print(f"[quiet]The {limit} fetched last; more with --limit.[/]")


def show_retractions(console: Console, found: Sequence[RetractionView]) -> None:
    if not found:
        console.print("Nothing was retracted.")
    for each in found:
        state = "[good]restored[/]" if each.restored_at else "[warn]retracted[/]"
        when = ago(each.restored_at or each.created_at)
        console.print(
            f"{state} [link]{escape(each.url)}[/]  [quiet]{when}, {each.id}[/]", soft_wrap=True
        )
        versions = "one version" if each.source_id else counted(each.sources, "version")
        console.print(f"  {versions}: {escape(each.because)}", soft_wrap=True)
        console.print(f"  {_doubted(each)}", soft_wrap=True)


def _doubted(retraction: RetractionView) -> str:
    if retraction.is_pending:
        return "[quiet]What rests on it is being gone through.[/]"
    if not retraction.analyses and not retraction.advice:
        return "[quiet]Nothing is in doubt because of it.[/]"
    analyses, advice = (
        counted(retraction.analyses, "analysis"),
        counted(retraction.advice, "advice"),
    )
    return f"[warn]In doubt because of it: {analyses} and {advice}.[/]"
