"""The palette (Ctrl-K): finds agents and what they hold by words, and lists commands.

It searches all agents of the owner. What belongs to the agent of the open page comes first.
"""

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Query
from sqlalchemy import ColumnElement, func, select, true
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.orm import InstrumentedAttribute
from starlette.responses import HTMLResponse

from services.api.auth.dependencies import Access, AgentRef, OwnedAccess, find_agent_ref
from services.api.http.problem_details import NotFoundError
from services.api.resources.agents.model import list_agent_names
from services.api.web.filters import host, type_words
from services.api.web.rendering import PageResponse
from services.api.web.text import element_address
from shared.database.tables import Agent, GraphNode, InboxItem, Iteration, Source
from shared.database.tables.graph import NAME_WORDS
from shared.graph.conclusions.queries import VERDICT_PROPERTIES
from shared.graph.retrieval.node_search import all_words_query

router = APIRouter()

MAX_AGENTS: Final = 6
MAX_FOUND: Final = 5
"""Of each kind."""
MAX_SEARCH_CHARS: Final = 200
MAX_PATH_CHARS: Final = 500
"""A longer address is not one of an agent's pages."""
MIN_SEARCH_CHARS: Final = 2
"""From which on more than names of agents and pages is searched. An iteration may have a single digit."""


class Result(NamedTuple):
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
    ("/conclusions", "Advice and analyses", "lightbulb"),
    ("/sources", "Sources", "globe"),
    ("/conversation", "Conversation", "message-square"),
    ("/settings", "Settings", "settings"),
)
_PAGES: Final = (
    Result("Agents", "bot", "/agents"),
    Result("Inbox", "inbox", "/inbox"),
    Result("Costs", "coins", "/costs"),
    Result("Settings", "settings", "/settings"),
    Result("API tokens", "key-round", "/settings/tokens", "Settings"),
    Result("Destinations", "webhook", "/settings/destinations", "Settings"),
)
_OPERATOR_PAGES: Final = (
    Result(
        "Operate", "heart-pulse", "/operate", "health, services, dead letters, events, retention"
    ),
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
        return await page.answer("palette/page.html", groups=[], nothing=fault)
    words = query.casefold().split()
    agent = await _agent_of(access, path)
    pages = (*_PAGES, *(_OPERATOR_PAGES if access.caller.is_operator else ()))
    agents = await list_agent_names(access, query, limit=MAX_AGENTS)
    rows_of_agent = [] if agent is None else [row async for row in _agent_rows(access, agent)]
    search = _Search(access, query.split(), agent)
    groups = [
        ("Agents", [Result(each.name, "bot", f"/agents/{each.id}") for each in agents]),
        (agent.name if agent else "", [row for row in rows_of_agent if row.matches(words)]),
        ("Iterations", await search.iterations()),
    ]
    if len(query.strip()) >= MIN_SEARCH_CHARS:
        groups += [
            ("Conclusions", await search.conclusions()),
            ("Inbox", await search.items()),
            ("Nodes", await search.nodes()),
            ("Sources", await search.sources()),
        ]
    groups += [
        ("Pages", [row for row in pages if row.matches(words)]),
        ("Commands", [row for row in _COMMANDS if row.matches(words)]),
    ]
    return await page.answer(
        "palette/page.html",
        groups=[(name, rows) for name, rows in groups if rows],
        nothing=f"Nothing matches “{query}”.",
    )


async def _agent_of(access: Access, path: str) -> AgentRef | None:
    parts = path.split("/")
    if len(path) > MAX_PATH_CHARS or len(parts) < 3 or parts[1] != "agents" or parts[2] == "new":
        return None
    try:
        return await find_agent_ref(access, parts[2])
    except NotFoundError:
        return None


async def _agent_rows(access: Access, agent: AgentRef) -> AsyncIterator[Result]:
    here = f"/agents/{agent.id}"
    yield Result("Run now", "play", posts=f"{here}/run", note=agent.name)
    if await access.session.scalar(select(Agent.active).where(Agent.id == agent.id)):
        yield Result("Pause", "pause", posts=f"{here}/pause", note=agent.name)
    else:
        yield Result("Resume", "play", posts=f"{here}/resume", note=agent.name)
    for place, name, icon in _AGENT_PAGES:
        yield Result(name, icon, f"{here}{place}", agent.name)
    yield Result("Costs", "coins", f"/costs?agent={agent.id}", agent.name)


MAX_PAGES: Final = 200
"""The pages of an agent that are searched: those that were fetched last. Their titles have no index."""
MAX_ITEMS: Final = 2_000
"""The newest inbox items of an owner, which are searched."""
_NUMBER: Final = re.compile(r"#?(\d{1,9})")
_ITERATION: Final = "iteration"


@dataclass(frozen=True)
class _Search:
    """Finds what contains all of the words. What belongs to `agent`, whose page is open, comes first."""

    access: Access
    words: Sequence[str]
    agent: AgentRef | None

    async def iterations(self) -> list[Result]:
        """Iterations by number: `12`, `#12`, `iteration 12`; other words are parts of the name of the agent."""
        numbers = [match for word in self.words if (match := _NUMBER.fullmatch(word))]
        if len(numbers) != 1:
            return []
        others = [
            word
            for word in self.words
            if word != numbers[0].string and not (len(word) > 1 and _ITERATION.startswith(word))
        ]
        statement = (
            select(Iteration.number, Agent.id, Agent.name)
            .join(Agent, Agent.id == Iteration.agent_id)
            .where(
                Agent.owner_id == self.access.owner_id,
                Iteration.number == int(numbers[0][1]),
                *_contains(Agent.name, others),
            )
            .order_by(*self._here_first(Agent.id), Iteration.started_at.desc())
            .limit(MAX_FOUND)
        )
        return [
            Result(f"Iteration {number}", "history", f"/agents/{id_}/iterations/{number}", name)
            for number, id_, name in await self.access.session.execute(statement)
        ]

    async def conclusions(self) -> list[Result]:
        statement = (
            select(GraphNode.id, GraphNode.name, GraphNode.agent_id, Agent.name)
            .join(Agent, Agent.id == GraphNode.agent_id)
            .where(
                Agent.owner_id == self.access.owner_id,
                GraphNode.type.in_(VERDICT_PROPERTIES),
                *_contains(GraphNode.name, self.words),
            )
            .order_by(GraphNode.updated_at.desc())
            .limit(MAX_FOUND)
        )
        return [
            Result(name, "lightbulb", f"/agents/{agent_id}/conclusions/{id_}", agent_name)
            for id_, name, agent_id, agent_name in await self.access.session.execute(statement)
        ]

    async def items(self) -> list[Result]:
        """Inbox items by title, the newest first."""
        newest = (
            select(InboxItem.id, InboxItem.title, InboxItem.agent_id, InboxItem.created_at)
            .where(InboxItem.owner_id == self.access.owner_id)
            .order_by(InboxItem.created_at.desc())
            .limit(MAX_ITEMS)
            .subquery()
        )
        statement = (
            select(newest.c.id, newest.c.title, Agent.name)
            .join(Agent, Agent.id == newest.c.agent_id)
            .where(*_contains(newest.c.title, self.words))
            .order_by(newest.c.created_at.desc())
            .limit(MAX_FOUND)
        )
        return [
            Result(title, "inbox", f"/inbox?view=all&item={id_}", agent_name)
            for id_, title, agent_name in await self.access.session.execute(statement)
        ]

    async def nodes(self) -> list[Result]:
        """Nodes, without conclusions: each word is the prefix of a word of the name."""
        found = (
            select(GraphNode.id, GraphNode.name, GraphNode.type, GraphNode.updated_at)
            .where(
                GraphNode.agent_id == Agent.id,
                GraphNode.type.not_in(VERDICT_PROPERTIES),
                NAME_WORDS.op("@@")(all_words_query(self.words)),
            )
            .order_by(GraphNode.updated_at.desc())
            .limit(MAX_FOUND)
            .correlate(Agent)
            .lateral("found")
        )
        statement = (
            select(found.c.id, found.c.name, found.c.type, Agent.id, Agent.name)
            .join(found, true())
            .where(Agent.owner_id == self.access.owner_id)
            .order_by(*self._here_first(Agent.id), found.c.updated_at.desc())
            .limit(MAX_FOUND)
        )
        return [
            Result(
                name,
                "shapes",
                element_address(agent_id, "node", id_, type_name),
                f"{type_words(type_name)}, {agent_name}",
            )
            for id_, name, type_name, agent_id, agent_name in await self.access.session.execute(
                statement
            )
        ]

    async def sources(self) -> list[Result]:
        """The newest versions of pages by title or address."""
        newest = (
            select(Source.id, Source.title, Source.url, Source.fetched_at)
            .where(Source.agent_id == Agent.id)
            .order_by(Source.fetched_at.desc())
            .limit(MAX_PAGES)
            .correlate(Agent)
            .lateral("newest")
        )
        text = func.concat_ws(" ", newest.c.title, newest.c.url)
        versions = (
            select(newest, Agent.id.label("agent_id"), Agent.name.label("agent_name"))
            .join(newest, true())
            .where(Agent.owner_id == self.access.owner_id, *_contains(text, self.words))
            .ext(distinct_on(Agent.id, newest.c.url))
            .order_by(Agent.id, newest.c.url, newest.c.fetched_at.desc())
            .subquery()
        )
        order = (*self._here_first(versions.c.agent_id), versions.c.fetched_at.desc())
        rows = await self.access.session.execute(select(versions).order_by(*order).limit(MAX_FOUND))
        return [
            Result(
                row.title or row.url,
                "globe",
                f"/agents/{row.agent_id}/sources/{row.id}",
                f"{host(row.url)}, {row.agent_name}",
            )
            for row in rows
        ]

    def _here_first(
        self, agent_id: ColumnElement[Any] | InstrumentedAttribute[Any]
    ) -> list[ColumnElement[Any]]:
        return [] if self.agent is None else [(agent_id == self.agent.id).desc()]


def _contains(
    text: ColumnElement[Any] | InstrumentedAttribute[str], words: Sequence[str]
) -> list[ColumnElement[bool]]:
    return [text.icontains(word, autoescape=True) for word in words]
