"""The check of everything an agent knows, page by page. `vigil verify --all` and `vigil try-model` use it."""

from collections import Counter
from collections.abc import Iterator
from typing import Final
from uuid import UUID

from cli.client.client import Client
from cli.render.console import err
from cli.render.operations import Activity
from cli.render.provenance import counted_in_words
from shared.schemas.base import AgentResponse, ResponseModel
from shared.schemas.provenance import CheckedCounts, ElementDoubt, ElementFault, VerificationPage

PAGE_ROWS: Final = 16_000
"""Rows that the API checks in one response, in a few seconds."""
MAX_LISTED: Final = 1000
"""Breaks, and doubts, that are listed; the others are only counted."""


class AgentVerified(ResponseModel):
    """The result of checking everything one agent knows."""

    agent_id: UUID
    name: str
    holds: bool
    checked: CheckedCounts
    broken: int
    """Number of breaks; `breaks` lists the first of them."""
    breaks: list[ElementFault]
    in_doubt: int
    """Number of conclusions in doubt; `doubts` gives the reasons of the first. A doubt is not a break."""
    doubts: list[ElementDoubt]
    root: str | None = None
    """The newest root of its history, for `--since` of a later check."""
    signatures_checked: bool = False
    """Whether the API has the key with which entries of the history are signed."""
    since: str | None = None
    """The root that its history had to have; then only the history, and rows against it, were checked."""


def verify_agent(client: Client, agent: AgentResponse, since: str | None = None) -> AgentVerified:
    """Checks everything the agent knows, with progress on stderr.

    With `since`, checks only its history, which must have this root.
    """
    checked, breaks, broken = Counter[str](), list[ElementFault](), 0
    doubts, in_doubt = list[ElementDoubt](), 0
    root: str | None = None
    signatures_checked = False
    with Activity(err()) as activity:
        activity.say("checking")
        for page in _pages(client, str(agent.id), since):
            checked.update(page.checked.model_dump())
            broken += len(page.breaks)
            breaks += page.breaks[: MAX_LISTED - len(breaks)]
            in_doubt += len({doubt.id for doubt in page.doubts})
            doubts += page.doubts[: MAX_LISTED - len(doubts)]
            root = page.root or root
            signatures_checked = page.signatures_checked
            activity.say(f"checking: {counted_in_words(CheckedCounts(**checked))}")
    return AgentVerified(
        agent_id=agent.id,
        name=agent.name,
        holds=not broken,
        checked=CheckedCounts(**checked),
        broken=broken,
        breaks=breaks,
        in_doubt=in_doubt,
        doubts=doubts,
        root=root,
        signatures_checked=signatures_checked,
        since=since,
    )


def _pages(client: Client, agent: str, since: str | None) -> Iterator[VerificationPage]:
    path = client.agent_path(agent, "verification")
    cursor: str | None = None
    while True:
        page = client.get(VerificationPage, path, limit=PAGE_ROWS, since=since, cursor=cursor)
        yield page
        if (cursor := page.next) is None:
            return
