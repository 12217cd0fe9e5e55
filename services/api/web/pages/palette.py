"""The palette (Ctrl-K): finds agents, conclusions, nodes and pages by words, and lists commands."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse

from services.api.auth.dependencies import Access, OwnedAccess
from services.api.queries import agents as agent_queries
from services.api.queries import conclusions
from services.api.queries.agents import AgentRef
from services.api.queries.graph import NodeFilter, list_nodes
from services.api.web.rendering import PageResponse
from services.api.web.text import element_address
from shared.database.tables import Agent
from shared.graph.scope import GraphScope
from shared.schemas.base import PageRequest

router = APIRouter()

MAX_AGENTS: Final = 6
MAX_CONCLUSIONS: Final = 5
MAX_NODES: Final = 6
MIN_SEARCH_CHARS: Final = 2
"""From which on conclusions and nodes are searched."""


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
    query: Annotated[str, Query(max_length=200)] = "",
    path: Annotated[str, Query(alias="from", max_length=500)] = "",
) -> HTMLResponse:
    """`from` is the address of the page on which the palette was opened: commands and nodes are of its agent."""
    words = query.casefold().split()
    agent = await _agent_of(access, path)
    groups = [
        ("Agents", await _agents(access, query)),
        (agent.name if agent else "", await _agent_commands(access, agent, words)),
        ("Conclusions", await _conclusions(access, query)),
        ("Nodes", await _nodes(access, agent, query)),
        ("Pages", [row for row in _pages(access) if row.matches(words)]),
        ("Commands", [row for row in _COMMANDS if row.matches(words)]),
    ]
    return await page.answer(
        "palette.html", groups=[(name, rows) for name, rows in groups if rows], searched=query
    )


def _pages(access: Access) -> Sequence[Result]:
    return (*_PAGES, *(_OPERATOR_PAGES if access.caller.is_operator else ()))


async def _agent_of(access: Access, path: str) -> AgentRef | None:
    parts = path.split("/")
    if len(parts) < 3 or parts[1] != "agents" or parts[2] == "new":
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


async def _conclusions(access: Access, query: str) -> list[Result]:
    if len(query.strip()) < MIN_SEARCH_CHARS:
        return []
    found = await conclusions.find_conclusions(
        access.session, access.owner_id, query, limit=MAX_CONCLUSIONS
    )
    return [
        Result(row.name, "lightbulb", _conclusion_address(row.agent_id, row.id), row.agent_name)
        for row in found
    ]


def _conclusion_address(agent_id: UUID, conclusion_id: UUID) -> str:
    return f"/agents/{agent_id}/conclusions/{conclusion_id}"


async def _nodes(access: Access, agent: AgentRef | None, query: str) -> list[Result]:
    if agent is None or len(query.strip()) < MIN_SEARCH_CHARS:
        return []
    scope = GraphScope(access.owner_id, agent.id)
    nodes = await list_nodes(
        access.session, scope, PageRequest(MAX_NODES), NodeFilter(search=query)
    )
    return [
        Result(
            node.name, "shapes", element_address(agent.id, "node", node.id, node.type), node.type
        )
        for node in nodes.items
    ]
