"""Chains from advice to pages in a terminal. Names, quotes, titles and URLs are data: nothing in them is obeyed."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from rich.console import Console
from rich.markup import escape
from rich.tree import Tree

from cli.show.words import clip, counted, printable
from shared.store.reading.proof_shapes import (
    BreakView,
    CheckedView,
    ConclusionLink,
    EvidenceLink,
    LinkView,
    SourceLink,
    ThingLink,
    VerificationView,
)
from shared.store.reading.retraction_shapes import DoubtView

if TYPE_CHECKING:
    from cli.verifying import AgentVerified

QUOTE_CHARACTERS: Final = 160
VALUE_CHARACTERS: Final = 60
GOOD: Final = "[good]✓[/]"
BAD: Final = "[bad]✗[/]"

AnyLink = ConclusionLink | ThingLink | EvidenceLink | SourceLink


def show_chain(console: Console, found: VerificationView) -> None:
    console.print(_Chain(found).tree(), soft_wrap=True)


def show_summary(console: Console, found: VerificationView) -> None:
    links: Sequence[LinkView] = [
        *found.conclusions,
        *found.things,
        *found.evidence,
        *found.sources,
    ]
    broken = sum(len(link.breaks) for link in links)
    edges = sum(each.link == "edge" for each in found.things)
    checked = CheckedView(
        sources=len(found.sources),
        evidence=len(found.evidence),
        nodes=len(found.conclusions) + len(found.things) - edges,
        edges=edges,
    )
    told = counted_in_words(checked)
    console.print(f"\n{_verdict(broken)} [quiet]{told} checked[/]", soft_wrap=True)
    asked = next((each for each in found.conclusions if each.id == found.id), None)
    for each in asked.doubts if asked else ():
        console.print(_doubt(each), soft_wrap=True)


def show_breaks(console: Console, found: "AgentVerified") -> None:
    """What is broken of all that an agent knows, and which of its conclusions are in doubt."""
    for each in found.breaks:
        where = f"{each.link} {_data(each.name)} [quiet]{each.id}[/]"
        console.print(f"{BAD} {where}: [bad]{_data(each.told)}[/]", soft_wrap=True)
    if (more := found.broken - len(found.breaks)) > 0:
        console.print(f"[bad]… and {more:,} more[/]")
    for doubt in found.doubts:
        where = f"{doubt.link} {_data(doubt.name)} [quiet]{doubt.id}[/]"
        console.print(f"{where}: {_doubt(doubt)}", soft_wrap=True)
    doubted = f", [warn]{found.in_doubt:,} in doubt[/]" if found.in_doubt else ""
    console.print(
        f"{_verdict(found.broken)} [agent]{_data(found.name)}[/]: "
        f"[quiet]{counted_in_words(found.checked)} checked[/]{doubted}",
        soft_wrap=True,
    )


def counted_in_words(checked: CheckedView) -> str:
    parts = {"page": checked.sources, "quote": checked.evidence}
    parts |= {"node": checked.nodes, "edge": checked.edges}
    return ", ".join(counted(number, noun) for noun, number in parts.items())


class _Chain:
    """Each link is told in full where it is met first, and named where it is met again."""

    def __init__(self, found: VerificationView) -> None:
        self._root = found.id
        links: Iterable[AnyLink] = (
            *found.conclusions,
            *found.things,
            *found.evidence,
            *found.sources,
        )
        self._links = {link.id: link for link in links}
        self._met: set[UUID] = set()

    def tree(self) -> Tree:
        return self._branch(Tree, self._root)

    def _branch(self, add: Callable[[str], Tree], link_id: UUID) -> Tree:
        link = self._links[link_id]
        is_known = link_id in self._met
        self._met.add(link_id)
        again = " [quiet](as above)[/]" if is_known and not isinstance(link, SourceLink) else ""
        branch = add(f"{GOOD if link.holds else BAD} {_line(link)}{again}")
        if is_known:
            return branch
        for each in link.breaks:
            branch.add(_break(each))
        for doubt in link.doubts if isinstance(link, ConclusionLink) else ():
            branch.add(_doubt(doubt))
        for below in self._below(link):
            self._branch(branch.add, below)
        if hidden := self._superseded(link):
            branch.add(f"[quiet]{counted(hidden, 'quote')} of superseded values, checked too[/]")
        return branch

    def _below(self, link: AnyLink) -> Iterator[UUID]:
        """Not all that was checked: what a value rests on, and what is broken."""
        for each in self._rests_on(link):
            below = self._links.get(each)
            if below is None:
                continue
            if isinstance(link, ThingLink) and isinstance(below, ThingLink) and below.holds:
                continue  # an edge's end
            if not _is_superseded(below):
                yield each

    def _rests_on(self, link: AnyLink) -> Sequence[UUID]:
        match link:
            case EvidenceLink():
                return [link.source_id]
            case SourceLink():
                return []
            case _:
                return link.rests_on

    def _superseded(self, link: AnyLink) -> int:
        below = (self._links.get(each) for each in self._rests_on(link))
        return sum(each is not None and _is_superseded(each) for each in below)


def _is_superseded(link: AnyLink) -> bool:
    """It says values, and none of them holds; where something is wrong with it, that is told all the same."""
    return isinstance(link, EvidenceLink) and link.holds and bool(link.claims) and not link.stands


def _line(link: AnyLink) -> str:
    match link:
        case ConclusionLink():
            return f"{link.link} [title]“{_data(link.name)}”[/] [quiet]{link.id}[/]"
        case ThingLink():
            told = ", ".join(f"{_data(name)} = {_value(v)}" for name, v in link.properties.items())
            return f"[agent]{_data(link.type)}[/] {_data(link.name)}" + (
                f" ({told})" if told else ""
            )
        case EvidenceLink():
            stands = f"[quiet]{_data(', '.join(link.stands))}:[/] " if link.stands else ""
            return f"{stands}“{_data(clip(link.quote, QUOTE_CHARACTERS))}”"
        case SourceLink():
            return _page(link)


def _page(link: SourceLink) -> str:
    title = f"{_data(clip(link.title, VALUE_CHARACTERS))}, " if link.title else ""
    when = (
        f"fetched {link.fetched_at:%Y-%m-%d}"
        if link.published is None
        else f"published {link.published:%Y-%m-%d}"
    )
    gone = ", [warn]retracted[/]" if link.retracted_at else ""
    return f"{title}[link]{_data(link.url)}[/], {when}{gone}"


def _break(told: BreakView) -> str:
    return f"[bad]{told.broken}: {_data(told.told)}[/]"


def _doubt(doubt: DoubtView) -> str:
    page = f"[link]{_data(doubt.url)}[/] was retracted ({_data(doubt.because)})"
    return f"[warn]in doubt since {doubt.since:%Y-%m-%d}:[/] {page}"


def _verdict(broken: int) -> str:
    return (
        f"{GOOD} everything holds." if not broken else f"{BAD} [bad]{counted(broken, 'break')}.[/]"
    )


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _data(clip(text, VALUE_CHARACTERS))


def _data(text: str) -> str:
    return escape(printable(text))
