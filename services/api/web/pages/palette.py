"""The palette (Ctrl-K): finds agents and what they hold by words, and lists commands.

It searches all agents of the owner. What belongs to the agent of the open page comes first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse

from services.api.auth.dependencies import Access, OwnedAccess
from services.api.queries import agents as agent_queries
from services.api.queries import conclusions, finding
from services.api.queries.agents import AgentRef
from services.api.queries.finding import Wanted
from services.api.web.filters import host, type_words
from services.api.web.rendering import PageResponse
from services.api.web.text import element_address
from shared.database.tables import Agent

router = APIRouter()

MAX_AGENTS: Final = 6
MAX_FOUND: Final = 5
"""Of each kind."""
MAX_SEARCH_CHARS: Final = 200
MAX_PATH_CHARS: Final = 500
"""A longer address is not one of an agent's pages."""
MIN_SEARCH_CHARS: Final = 2
"""From which on more than names of agents and pages is searched. An iteration may have a single digit."""


@dataclass(frozen=True)
class Result:
    """A row of the palette: a link, or a command (`posts`: the address of a form; `runs`: the name of a button)."""

    name: str
    icon: str
    href: str = ""
    note: str = ""
    posts: str = ""
    runs: str = ""

    def matches(self, words: Sequence[str]) -> bool:
        text = f"{self.name} {self.note}".casefold()
        return all(word in text for word in words)


_AGENT_PAGES: Final = (
    ("", "Now", "activity"),
    ("/iterations", "Iterations", "history"),
    ("/graph", "Graph", "waypoints"),
    ("/types", "Types", "shapes"),
    ("/conclusions", "Advice and analyses", "lightbulb"),
    ("/sources", "Sources", "globe"),
    ("/duplicates", "Duplicates", "git-merge"),
    ("/conversation", "Conversation", "message-square"),
    ("/costs", "Costs", "coins"),
    ("/settings", "Settings", "settings"),
    ("/compare", "Compare iterations", "git-compare"),
)
_PAGES: Final = (
    Result("Agents", "bot", "/agents"),
    Result("Inbox", "inbox", "/inbox"),
    Result("Costs", "coins", "/costs"),
    Result("Events", "radio", "/events"),
    Result("Settings", "settings", "/settings"),
    Result("API tokens", "key-round", "/settings/tokens", "Settings"),
    Result("Destinations", "webhook", "/settings/destinations", "Settings"),
)
_OPERATOR_PAGES: Final = (
    Result("Health", "heart-pulse", "/health-of-all"),
    Result("Dead letters", "octagon-alert", "/dead-letters"),
    Result("Users", "users", "/settings/users", "Settings"),
)
_COMMANDS: Final = (
    Result("New agent", "plus", "/agents/new"),
    Result("Switch theme", "sun", runs="theme"),
    Result("Keyboard shortcuts", "keyboard", runs="keys"),
)


@router.get("/palette")
async def show_palette(
    access: OwnedAccess,
    page: PageResponse,
    query: str = "",
    path: Annotated[str, Query(alias="from")] = "",
) -> HTMLResponse:
    """`from` is the address of the page on which the palette was opened: commands are of its agent.

    A query that is too long gets a sentence in place of results: it was probably pasted into the field.
    """
    if len(query) > MAX_SEARCH_CHARS:
        fault = f"Search for at most {MAX_SEARCH_CHARS} characters."
        return await page.answer("palette.html", groups=[], nothing=fault)
    words = query.casefold().split()
    agent = await _agent_of(access, path)
    groups = [
        ("Agents", await _agents(access, query)),
        (agent.name if agent else "", await _agent_commands(access, agent, words)),
        *await _found(access, agent, query),
        ("Pages", [row for row in _pages(access) if row.matches(words)]),
        ("Commands", [row for row in _COMMANDS if row.matches(words)]),
    ]
    return await page.answer(
        "palette.html",
        groups=[(name, rows) for name, rows in groups if rows],
        nothing=f"Nothing matches “{query}”.",
    )


def _pages(access: Access) -> Sequence[Result]:
    return (*_PAGES, *(_OPERATOR_PAGES if access.caller.is_operator else ()))


async def _agent_of(access: Access, path: str) -> AgentRef | None:
    parts = path.split("/")
    if len(path) > MAX_PATH_CHARS or len(parts) < 3 or parts[1] != "agents" or parts[2] == "new":
        return None
    return await agent_queries.find_agent_ref(access.session, access.owner_id, parts[2])


async def _agent_commands(
    access: Access, agent: AgentRef | None, words: Sequence[str]
) -> list[Result]:
    if agent is None:
        return []
    is_active = (await access.session.get_one(Agent, agent.id)).active
    return [row for row in _agent_rows(agent, is_active=is_active) if row.matches(words)]


def _agent_rows(agent: AgentRef, *, is_active: bool) -> Iterator[Result]:
    here = f"/agents/{agent.id}"
    yield Result("Run now", "play", posts=f"{here}/run", note=agent.name)
    if is_active:
        yield Result("Pause", "pause", posts=f"{here}/pause", note=agent.name)
    else:
        yield Result("Resume", "play", posts=f"{here}/resume", note=agent.name)
    for place, name, icon in _AGENT_PAGES:
        yield Result(name, icon, f"{here}{place}", agent.name)


async def _agents(access: Access, query: str) -> list[Result]:
    found = await agent_queries.find_agent_names(
        access.session, access.owner_id, query, limit=MAX_AGENTS
    )
    return [Result(agent.name, "bot", f"/agents/{agent.id}") for agent in found]


async def _found(
    access: Access, agent: AgentRef | None, query: str
) -> list[tuple[str, list[Result]]]:
    words = query.split()
    here = agent.id if agent else None
    wanted = Wanted(access.owner_id, words, here, MAX_FOUND)
    iterations = [("Iterations", await _iterations(access, wanted))]
    if len(query.strip()) < MIN_SEARCH_CHARS:
        return iterations
    return [
        *iterations,
        ("Conclusions", await _conclusions(access, query)),
        ("Inbox", await _items(access, wanted)),
        ("Nodes", await _nodes(access, wanted)),
        ("Sources", await _sources(access, wanted)),
    ]


async def _iterations(access: Access, wanted: Wanted) -> list[Result]:
    return [
        Result(
            f"Iteration {row.number}",
            "history",
            f"/agents/{row.agent_id}/iterations/{row.number}",
            row.agent_name,
        )
        for row in await finding.find_iterations(access.session, wanted)
    ]


async def _conclusions(access: Access, query: str) -> list[Result]:
    found = await conclusions.find_conclusions(
        access.session, access.owner_id, query, limit=MAX_FOUND
    )
    return [
        Result(row.name, "lightbulb", _conclusion_address(row.agent_id, row.id), row.agent_name)
        for row in found
    ]


def _conclusion_address(agent_id: UUID, conclusion_id: UUID) -> str:
    return f"/agents/{agent_id}/conclusions/{conclusion_id}"


async def _items(access: Access, wanted: Wanted) -> list[Result]:
    return [
        Result(row.title, "inbox", f"/inbox?view=all&item={row.id}", row.agent_name)
        for row in await finding.find_items(access.session, wanted)
    ]


async def _nodes(access: Access, wanted: Wanted) -> list[Result]:
    return [
        Result(
            row.name,
            "shapes",
            element_address(row.agent_id, "node", row.id, row.type),
            f"{type_words(row.type)}, {row.agent_name}",
        )
        for row in await finding.find_nodes(access.session, wanted)
    ]


async def _sources(access: Access, wanted: Wanted) -> list[Result]:
    return [
        Result(
            row.title or row.url,
            "globe",
            f"/agents/{row.agent_id}/sources/{row.id}",
            f"{host(row.url)}, {row.agent_name}",
        )
        for row in await finding.find_pages(access.session, wanted)
    ]
