"""Verifying: asked of the api, shown while it goes on, summed up at the end."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from cli.client.client import Client
from cli.render.console import err, out, print_json
from cli.render.provenance import counted_in_words, show_breaks, show_chain, show_summary
from shared.schemas.base import AgentView, View
from shared.schemas.provenance import CheckedView, FoundBreak, FoundDoubt

ROWS: Final = 500
"""That the api looks at in one answer."""
MOST_TOLD: Final = 1000
"""Breaks, and doubts, that are kept and told; of more than that, only how many there are."""


class AgentVerified(View):
    """All that one agent knows, looked at."""

    agent_id: UUID
    name: str
    holds: bool
    checked: CheckedView
    broken: int
    """How many breaks there are; `breaks` tells the first of them."""
    breaks: list[FoundBreak]
    in_doubt: int
    """How many conclusions are; `doubts` tells why, of the first of them. They break nothing."""
    doubts: list[FoundDoubt]


def verify_one(client: Client, conclusion_id: UUID, *, as_json: bool) -> bool:
    """Shows its chain; whether it holds."""
    found = client.verification(conclusion_id)
    if as_json:
        print_json(found)
    else:
        show_chain(out(), found)
        show_summary(out(), found)
    return found.holds


def verify_all(client: Client, agent: str | None, *, as_json: bool) -> bool:
    """Of one agent or of all; whether everything holds."""
    agents = list(client.agents()) if agent is None else [client.agent(agent)]
    found: list[AgentVerified] = []
    for each in agents:
        found.append(verified(client, each))
        if not as_json:
            show_breaks(out(), found[-1])
    if as_json:
        print_json(found)
    elif not agents:
        out().print("There are no agents, so there is nothing to verify.")
    return all(each.holds for each in found)


def verified(client: Client, agent: AgentView) -> AgentVerified:
    """All that the agent knows, checked."""
    checked, breaks, broken = Counter[str](), list[FoundBreak](), 0
    doubts, in_doubt = list[FoundDoubt](), 0
    with _progress(agent.name) as tell:
        for page in client.verification_pages(str(agent.id), ROWS):
            checked.update(page.checked.model_dump())
            broken += len(page.breaks)
            breaks += page.breaks[: MOST_TOLD - len(breaks)]
            in_doubt += len({each.id for each in page.doubts})
            doubts += page.doubts[: MOST_TOLD - len(doubts)]
            tell(CheckedView(**checked))
    return AgentVerified(
        agent_id=agent.id,
        name=agent.name,
        holds=not broken,
        checked=CheckedView(**checked),
        broken=broken,
        breaks=breaks,
        in_doubt=in_doubt,
        doubts=doubts,
    )


class _Tell:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None)

    def __call__(self, checked: CheckedView) -> None:
        self._progress.update(self._task, description=counted_in_words(checked))


@contextmanager
def _progress(name: str) -> Iterator[_Tell]:
    """On stderr, and gone when it ends; nothing where there is no terminal."""
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    console = err()
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        yield _Tell(progress)
