"""What the palette finds by words in all agents of an owner: nodes, pages, inbox items, and iterations by number."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, func, select, true
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from shared.database.tables import Agent, GraphNode, InboxItem, Iteration, Source
from shared.database.tables.graph import NAME_WORDS
from shared.graph.conclusions.queries import VERDICT_PROPERTIES
from shared.graph.retrieval.node_search import all_words_query

MAX_PAGES: Final = 200
"""The pages of an agent that are searched: those that were fetched last. Their titles have no index."""
MAX_ITEMS: Final = 2_000
"""The newest inbox items of an owner, which are searched."""
_NUMBER: Final = re.compile(r"#?(\d{1,9})")
_ITERATION: Final = "iteration"


@dataclass(frozen=True)
class Wanted:
    """`agent_id`: the agent whose page is open, which comes first."""

    owner_id: UUID
    words: Sequence[str]
    agent_id: UUID | None
    limit: int


@dataclass(frozen=True)
class FoundNode:
    id: UUID
    name: str
    type: str
    agent_id: UUID
    agent_name: str


@dataclass(frozen=True)
class FoundPage:
    """The version that was fetched last."""

    id: UUID
    title: str | None
    url: str
    agent_id: UUID
    agent_name: str


@dataclass(frozen=True)
class FoundItem:
    id: UUID
    title: str
    agent_name: str


@dataclass(frozen=True)
class FoundIteration:
    number: int
    started_at: datetime
    agent_id: UUID
    agent_name: str


async def find_nodes(session: AsyncSession, wanted: Wanted) -> list[FoundNode]:
    """Finds nodes, without conclusions: each word is the prefix of a word of the name."""
    found = (
        select(GraphNode.id, GraphNode.name, GraphNode.type, GraphNode.updated_at)
        .where(
            GraphNode.agent_id == Agent.id,
            GraphNode.type.not_in(VERDICT_PROPERTIES),
            NAME_WORDS.op("@@")(all_words_query(wanted.words)),
        )
        .order_by(GraphNode.updated_at.desc())
        .limit(wanted.limit)
        .correlate(Agent)
        .lateral("found")
    )
    rows = await session.execute(
        select(
            found.c.id,
            found.c.name,
            found.c.type,
            Agent.id.label("agent_id"),
            Agent.name.label("agent_name"),
        )
        .join(found, true())
        .where(Agent.owner_id == wanted.owner_id)
        .order_by(*_here_first(wanted), found.c.updated_at.desc())
        .limit(wanted.limit)
    )
    return [FoundNode(*row) for row in rows]


async def find_pages(session: AsyncSession, wanted: Wanted) -> list[FoundPage]:
    """Finds the newest versions of pages whose title or address contains all words."""
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
        select(
            newest.c.id,
            newest.c.title,
            newest.c.url,
            newest.c.fetched_at,
            Agent.id.label("agent_id"),
            Agent.name.label("agent_name"),
        )
        .join(newest, true())
        .where(Agent.owner_id == wanted.owner_id, *_contains(text, wanted.words))
        .ext(distinct_on(Agent.id, newest.c.url))
        .order_by(Agent.id, newest.c.url, newest.c.fetched_at.desc())
        .subquery()
    )
    columns = versions.c
    rows = await session.execute(
        select(columns.id, columns.title, columns.url, columns.agent_id, columns.agent_name)
        .order_by(
            *([] if wanted.agent_id is None else [(columns.agent_id == wanted.agent_id).desc()]),
            columns.fetched_at.desc(),
        )
        .limit(wanted.limit)
    )
    return [FoundPage(*row) for row in rows]


async def find_items(session: AsyncSession, wanted: Wanted) -> list[FoundItem]:
    """Finds inbox items whose titles contain all words, the newest first."""
    newest = (
        select(InboxItem.id, InboxItem.title, InboxItem.agent_id, InboxItem.created_at)
        .where(InboxItem.owner_id == wanted.owner_id)
        .order_by(InboxItem.created_at.desc())
        .limit(MAX_ITEMS)
        .subquery()
    )
    rows = await session.execute(
        select(newest.c.id, newest.c.title, Agent.name)
        .join(Agent, Agent.id == newest.c.agent_id)
        .where(*_contains(newest.c.title, wanted.words))
        .order_by(newest.c.created_at.desc())
        .limit(wanted.limit)
    )
    return [FoundItem(*row) for row in rows]


async def find_iterations(session: AsyncSession, wanted: Wanted) -> list[FoundIteration]:
    """Finds iterations by number: `12`, `#12`, `iteration 12`; other words are parts of the name of the agent."""
    numbers = [match for word in wanted.words if (match := _NUMBER.fullmatch(word))]
    if len(numbers) != 1:
        return []
    others = [
        word
        for word in wanted.words
        if word != numbers[0].string and not (len(word) > 1 and _ITERATION.startswith(word))
    ]
    statement = (
        select(Iteration.number, Iteration.started_at, Agent.id, Agent.name)
        .join(Agent, Agent.id == Iteration.agent_id)
        .where(
            Agent.owner_id == wanted.owner_id,
            Iteration.number == int(numbers[0][1]),
            *_contains(Agent.name, others),
        )
        .order_by(*_here_first(wanted), Iteration.started_at.desc())
        .limit(wanted.limit)
    )
    return [FoundIteration(*row) for row in await session.execute(statement)]


def _here_first(wanted: Wanted) -> list[ColumnElement[Any]]:
    return [] if wanted.agent_id is None else [(Agent.id == wanted.agent_id).desc()]


def _contains(
    text: ColumnElement[Any] | InstrumentedAttribute[str], words: Sequence[str]
) -> list[ColumnElement[bool]]:
    return [text.icontains(word, autoescape=True) for word in words]
