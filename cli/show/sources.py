"""Pages in a terminal, quotes of them, and those that are not believed."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cli.show.words import ago, clip, counted
from shared.store.reading.evidence_shapes import (
    ClaimView,
    EvidenceView,
    SourceDetails,
    SourceView,
)
from shared.store.reading.retraction_shapes import RetractionView

_QUOTE_CHARACTERS = 300
_VALUE_CHARACTERS = 80


def show_sources(console: Console, sources: Sequence[SourceView], *, limit: int) -> None:
    if not sources:
        console.print("No such page has been read.")
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(style="quiet", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(style="quiet", no_wrap=True)
    for each in sources:
        title = f"{escape(clip(each.title, 60))}  " if each.title else ""
        table.add_row(str(each.id), f"{title}[link]{escape(each.url)}[/]{_fate(each)}", _when(each))
    console.print(table)
    if len(sources) == limit:
        console.print(f"[quiet]The {limit} fetched last; more with --limit.[/]")


def show_source(console: Console, source: SourceDetails) -> None:
    if source.title:
        console.print(f"[title]{escape(source.title)}[/]", soft_wrap=True)
    console.print(f"[link]{escape(source.url)}[/]{_fate(source)}", soft_wrap=True)
    if source.retracted_because:
        console.print(f"[bad]{escape(source.retracted_because)}[/]", soft_wrap=True)
    console.print(f"[quiet]{_when(source)}  sha256 {source.sha256}[/]\n", soft_wrap=True)
    console.print(escape(source.text), soft_wrap=True)


def show_evidence(console: Console, evidence: Sequence[EvidenceView], *, is_all: bool) -> None:
    """Each quote with where it stands, and what it bears out."""
    if not evidence:
        console.print("[quiet]It rests on no page.[/]")
    for each in evidence:
        fate = "  [bad]retracted[/]" if each.retracted_at else ""
        console.print(f"  “{escape(clip(each.quote, _QUOTE_CHARACTERS))}”", soft_wrap=True)
        console.print(
            f"    [link]{escape(each.url)}[/]  [quiet]{_time(each)}[/]{fate}", soft_wrap=True
        )
        for claim in each.claims:
            console.print(f"    {_claim(claim)}", soft_wrap=True)
    if not is_all:
        console.print("  [quiet]There is more, which --json and the api tell.[/]")


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


def _claim(claim: ClaimView) -> str:
    said = f"{escape(claim.property)}: {escape(clip(str(claim.value), _VALUE_CHARACTERS))}"
    return said if claim.holds else f"[quiet]{said} (superseded)[/]"


def _time(evidence: EvidenceView) -> str:
    if evidence.valid_from is None and evidence.valid_to is None:
        return f"as of {evidence.as_of:%Y-%m-%d}"
    first = f"from {evidence.valid_from:%Y-%m-%d}" if evidence.valid_from else ""
    last = f"until {evidence.valid_to:%Y-%m-%d}" if evidence.valid_to else ""
    return f"{first} {last}".strip()


def _when(source: SourceView) -> str:
    published = f"published {source.published:%Y-%m-%d}, " if source.published else ""
    return f"{published}fetched {ago(source.fetched_at)}"


def _fate(source: SourceView) -> str:
    if source.retracted_at is None:
        return ""
    return f"  [bad]retracted {ago(source.retracted_at)}[/]"


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
