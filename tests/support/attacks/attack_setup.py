"""Two users with everything a user can have: the victim and the attacker."""

import re
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any

import httpx
from fastapi import FastAPI
from sqlalchemy import String, cast, func, select, text, update

from services.api.app import build
from shared.accounts import credentials
from shared.agents import agents, conversations, memories
from shared.agents.conversations import TooManyOpenTurns
from shared.database import ids
from shared.database.engine import Database
from shared.database.tables import (
    Agent,
    ApiToken,
    Base,
    BrowserSession,
    Delivery,
    Evidence,
    GraphEdge,
    GraphEdgeType,
    GraphNode,
    GraphNodeType,
    InboxItem,
    Step,
)
from shared.database.transaction import Transaction
from shared.enums import (
    ADVICE_TYPE,
    ANALYSIS_TYPE,
    AccessScope,
    DeliveryStatus,
    MemoryKind,
    Phase,
    StepStatus,
)
from shared.graph.scope import GraphScope
from shared.notifications import deliveries
from shared.notifications.webhooks import new_secret
from shared.runtime.settings import Settings
from shared.workflow import dead_letters
from shared.workflow.iterations import StartedIteration
from tests.support.api.clients import MISSION, create_anonymous_client
from tests.support.api.full_agent import (
    add_conclusions,
    add_investigation_requests,
    add_phase_run,
    end_iteration,
)
from tests.support.api.rows import (
    add_advice,
    add_distinct_pair,
    add_duplicates,
    add_evidence,
    add_merge,
    add_retracted_page,
    get_agent,
)
from tests.support.api.signed_in import create_token_in, session_cookie_name
from tests.support.attacks.routes import READ_PAGE, SHARED_PARAMETERS
from tests.support.factories import make_iteration, make_ready
from tests.support.graph.evidence_rows import make_source
from tests.support.notifier.rows import make_webhook

One = Callable[..., Awaitable[str]]


async def make_owned_resources(
    database: Database, agent: Agent, owner: str, *, iterations: int, secret: str
) -> dict[str, str]:
    """Create the rows and return their ids and other private values, by the names of the route parameters."""
    await _make_ready(database, agent)
    await add_advice(database, agent)
    await add_conclusions(database, agent)
    await add_evidence(database, agent)
    started = await _make_iterations(database, agent, iterations)
    await add_investigation_requests(database, started)
    return {
        "agent": str(agent.id),
        "user": str(agent.owner_id),
        "phase": Phase.OBSERVER,
        "number": str(started.iteration.number),
        "iteration_id": str(started.iteration.id),
        "interaction_id": str(await add_phase_run(database, started)),
        "dead_letter": await _dead_letter(database, started),
        **await _make_types(database, agent, owner),
        **await _make_retractions(database, agent, owner),
        **await _existing_ids(database, agent),
        **await _make_merges(database, agent),
        **await _splittable(database, agent),
        **await _conversation(database, agent, owner),
        **await _make_destination(database, agent, owner, secret),
    }


async def _make_ready(database: Database, agent: Agent) -> None:
    async with database.transaction() as session:
        await make_ready(session, agent)


async def _make_iterations(database: Database, agent: Agent, count: int) -> StartedIteration:
    """Create the iterations and return the last one, which is running; the others have ended."""
    for _ in range(count - 1):
        started = await make_iteration(database, await _reload(database, agent))
        await add_phase_run(database, started)
        await end_iteration(database, started)
    return await make_iteration(database, await _reload(database, agent))


async def _reload(database: Database, agent: Agent) -> Agent:
    async with database.transaction() as session:
        return await session.get_one(Agent, agent.id)


async def _make_types(database: Database, agent: Agent, owner: str) -> dict[str, str]:
    """Create types with names that no other agent has."""
    node_type, edge_type = f"ThingOf{owner.capitalize()}", f"told_by_{owner}"
    common = {"agent_id": agent.id, "description": "x", "created_by": "test"}
    async with database.transaction() as session:
        await session.insert(
            GraphNodeType, **common, name=node_type, properties_schema={"type": "object"}
        )
        await session.insert(GraphEdgeType, **common, name=edge_type)
    return {"node_type": node_type, "edge_type": edge_type}


async def _make_retractions(database: Database, agent: Agent, owner: str) -> dict[str, str]:
    """Create two retracted pages, and one that may be retracted."""
    async with database.transaction() as session:
        await make_source(session, GraphScope(agent.owner_id, agent.id), READ_PAGE)
    for number in (1, 2):
        retraction = await add_retracted_page(
            database, agent, f"https://{owner}.example.org/{number}"
        )
    return {"source_id": str(retraction.source_id), "retraction_id": str(retraction.retraction_id)}


async def _existing_ids(database: Database, agent: Agent) -> dict[str, str]:
    """Return the ids of rows created with other rows."""
    async with database.transaction() as session:
        is_bought = GraphEdge.agent_id == agent.id, GraphEdge.type == "buys"
        edge = (await session.scalars(select(GraphEdge).where(*is_bought).limit(1))).one()
        return {
            "source_node": str(edge.source_id),
            "target_node": str(edge.target_id),
            "step_id": await _first_id(session, Step, Step.agent_id == agent.id),
            "item_id": await _first_id(session, InboxItem, InboxItem.agent_id == agent.id),
            "edge_id": await _first_id(
                session, GraphEdge, GraphEdge.agent_id == agent.id, GraphEdge.type == "buys"
            ),
            "token_id": await _first_id(session, ApiToken, ApiToken.user_id == agent.owner_id),
            "session_id": await _first_id(
                session, BrowserSession, BrowserSession.user_id == agent.owner_id
            ),
            **{
                name: await _first_id(session, GraphNode, GraphNode.agent_id == agent.id, condition)
                for name, condition in (
                    ("node_id", GraphNode.name == "Halden Cells"),
                    ("analysis_id", GraphNode.type == ANALYSIS_TYPE),
                    ("advice_id", GraphNode.type == ADVICE_TYPE),
                    ("conclusion_id", GraphNode.type == ADVICE_TYPE),
                )
            },
        }


async def _make_merges(database: Database, agent: Agent) -> dict[str, str]:
    async with database.transaction() as session:
        await add_merge(session, agent, "Cell")
        kept, merged_id = await add_duplicates(session, agent, "Mine", "Mines")
        merge_id = str(await add_merge(session, agent))
        await add_distinct_pair(session, agent)
        pair_id = str(await add_distinct_pair(session, agent, "Quarry"))
        return {
            "merge_id": merge_id,
            "pair_id": pair_id,
            "kept": str(kept),
            "merged": str(merged_id),
        }


async def _splittable(database: Database, agent: Agent) -> dict[str, str]:
    """A node with several pieces of evidence, and one of them."""
    async with database.transaction() as session:
        rows = await session.execute(
            select(Evidence.node_id, func.max(cast(Evidence.id, String)))
            .where(Evidence.agent_id == agent.id, Evidence.node_id.is_not(None))
            .group_by(Evidence.node_id)
            .having(func.count() > 1)
            .order_by(Evidence.node_id)
        )
        node_id, evidence_id = rows.tuples().all()[0]
        return {"split_node": str(node_id), "split_evidence": evidence_id}


async def _first_id(session: Transaction, row: type[Any], *where: Any) -> str:
    row_ids = await session.scalars(select(row.id).where(*where).order_by(row.id))
    return str(row_ids.first())


async def _conversation(database: Database, agent: Agent, owner: str) -> dict[str, str]:
    """Create a failed answer, so that it can be retried and its stream ends; and a memory."""
    async with database.transaction() as session:
        step = await conversations.add_question(session, agent.id, f"What is known of {owner}?")
        assert not isinstance(step, TooManyOpenTurns | None)
        error = f"the model does not know {owner}"
        now = func.clock_timestamp()
        await session.update(Step, step.id, status=StepStatus.FAILED, error=error, ended_at=now)
        for kind in (MemoryKind.FACT, MemoryKind.WISH):
            memory = await memories.remember(session, agent.id, kind, f"Spare {owner}")
        return {
            "message_id": str(ids.answer_id(agent.id, step.index)),
            "memory_id": str(memory),
        }


async def _make_destination(
    database: Database, agent: Agent, owner: str, secret: str
) -> dict[str, str]:
    """Create an active destination with a failed delivery, so that it can be retried."""
    url = f"https://hooks.example.org/{owner}"
    await make_webhook(database, agent, f"{url}/2", secret=secret)
    destination_id = await make_webhook(database, agent, url, secret=secret)
    async with database.transaction() as session:
        await deliveries.create_test(session, destination_id)
        delivery = await deliveries.create_test(session, destination_id)
        await session.execute(
            update(Delivery)
            .where(Delivery.id == delivery)
            .values(status=DeliveryStatus.FAILED, ended_at=func.clock_timestamp())
        )
    return {"destination_id": str(destination_id), "delivery_id": str(delivery)}


async def _dead_letter(database: Database, started: StartedIteration) -> str:
    async with database.transaction() as session:
        for step_id, payload in (
            (None, f"{started.iteration.id}".encode()),
            (started.observe.id, f"of {started.observe.id}".encode()),
        ):
            await dead_letters.store(
                session,
                service="researcher",
                subject="query.requested",
                payload=payload,
                code="llm_key",
                error="the key is wrong",
                attempts=1,
                step_id=step_id,
            )
    return str(ids.dead_letter_id("query.requested", payload))


SECRETS = re.compile(r"vgl_[A-Za-z0-9_-]{10,}|secret=[A-Za-z0-9_-]{10,}")
READ_WRITE = (AccessScope.READ, AccessScope.WRITE)
WRITTEN_BY_AUTHENTICATION = {"api_tokens": "last_used_at", "sessions": "last_used_at"}
"""Columns that authentication itself writes."""


@dataclass(frozen=True)
class Person:
    """A user with an agent that has iterations, conclusions and advice."""

    name: str
    token: str
    session: str
    """The secret of a browser session."""
    webhook_secret: str
    cookie_name: str
    """The name of the session cookie."""
    values: dict[str, str]
    """Values of route parameters: ids of this user's rows, by the name of the parameter."""

    @property
    def private(self) -> list[str]:
        """Return values that must not be in responses to other users."""
        shared = {*SHARED_PARAMETERS, "number"}
        values = [value for name, value in self.values.items() if name not in shared]
        return [self.name, *self.secrets, *values]

    @property
    def secrets(self) -> list[str]:
        """Return values that must not be in any response."""
        return [self.token, self.session, self.webhook_secret]

    @property
    def bearer(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}

    @property
    def cookie(self) -> dict[str, str]:
        return {"cookie": f"{self.cookie_name}={self.session}"}


@dataclass(frozen=True)
class AttackSetup:
    settings: Settings
    database: Database
    app: FastAPI
    victim: Person
    attacker: Person

    async def token(
        self, user: str, scopes: Iterable[AccessScope], lifetime: timedelta | None = None
    ) -> str:
        return await create_token_in(self.database, user, scopes, lifetime)

    async def state(self, excluded: Collection[str] = ()) -> dict[str, str]:
        """Return a digest of each table's rows, without the columns that authentication writes."""
        names = sorted(set(Base.metadata.tables) - set(excluded))
        async with self.database.transaction() as session:
            rows = await session.execute(text(" union all ".join(map(_digest, names))))
            return {name: str(digest) for name, digest in rows}


def _digest(table: str) -> str:
    row = f"(to_jsonb(t) - '{WRITTEN_BY_AUTHENTICATION.get(table, '')}')::text"
    rows = f'select {row} as row from "{table}" t'
    return f"select '{table}', md5(string_agg(row, ',' order by row)) from ({rows}) r"


_addresses = count(1)


def client_from_new_address(app: FastAPI, **options: Any) -> httpx.AsyncClient:
    """Return a client without a credential from a new address, unaffected by the attempts of other tests."""
    number = next(_addresses)
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    return create_anonymous_client(app, address=address, **options)


async def make_attack_setup(url: str) -> AttackSetup:
    # These users send more requests than real ones; other tests cover the rate limit.
    settings = Settings(database_url=url, requests_burst=1_000_000)
    database = Database(url, name="attacked")
    app = build(settings)
    victim = await make_person(database, app, "victim", iterations=2)
    attacker = await make_person(database, app, "attacker")
    return AttackSetup(settings, database, app, victim, attacker)


async def make_person(
    database: Database, app: FastAPI, name: str, *, iterations: int = 1
) -> Person:
    """Create a user with a ready agent called `Of name`; all its iterations except the last have ended."""
    token = await create_token_in(database, name, READ_WRITE)
    async with client_from_new_address(app, headers={"authorization": f"Bearer {token}"}) as client:
        for agent_name in (f"Of {name}", f"More of {name}"):
            response = await client.post("/agents", json={"mission": MISSION, "name": agent_name})
            assert response.status_code == 201, response.text
    await create_token_in(database, name, READ_WRITE)
    await open_session(database, name)
    session_secret, secret = await open_session(database, name), new_secret()
    agent = await get_agent(database, f"Of {name}")
    values = await make_owned_resources(database, agent, name, iterations=iterations, secret=secret)
    cookie = await session_cookie_name(app.state.settings, database)
    return Person(name, token, session_secret, secret, cookie, values)


async def open_session(database: Database, user: str) -> str:
    async with database.transaction() as session:
        link = await credentials.create_link(session, await agents.ensure_user(session, user))
        secret = await credentials.open_session(session, link[1], "a browser")
        assert secret is not None
        return secret
