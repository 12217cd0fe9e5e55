"""Each actor does its whole work under its own NATS user and Postgres role, and can do nothing else."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import nats
import psycopg
import pytest
from nats.aio.client import Client
from sqlalchemy import select
from structlog.testing import capture_logs

from shared.errors import PermanentError, TransientError
from shared.events.credentials import Credentials
from shared.events.models import AnalysisProduced, QueryFailed
from shared.events.permissions import PERMISSIONS
from shared.events.tail import follow, listening, stored
from shared.events.topology import CONSUMERS, STREAM
from shared.graph import conclusions
from shared.graph.scope import Scope
from shared.runtime import bus as bus_module
from shared.runtime.credentials import credentials_of
from shared.runtime.database_url import database_url_of
from shared.runtime.provision import provision
from shared.runtime.reaching import bus_of, database_of
from shared.store import iterations, roles
from shared.store.database import Database
from shared.store.grants import GRANTS
from shared.store.tables import Agent, GraphNode, InboxItem
from shared.store.words import ANALYSIS_TYPE, IterationStatus
from tests.integration.cluster import BUILDERS, ended_iteration, running
from tests.integration.guarded import Guarded, guarded
from tests.integration.making import make_agent
from tests.waiting import until

ACTORS = sorted(BUILDERS)
ROLES = sorted(GRANTS)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Engines that ask for passwords, provisioned."""
    with guarded(tmp_path_factory.mktemp("guarded")) as installation:
        asyncio.run(provision(installation.migrator()))
        yield installation


@pytest.fixture
async def ours(closed: Guarded) -> AsyncIterator[Database]:
    """The tables, as their owner sees them."""
    opened = database_of(closed.migrator(), "migrate")
    yield opened
    await opened.close()


async def test_the_whole_loop_runs_under_its_own_users_and_roles(
    closed: Guarded, ours: Database, sandbox: str
) -> None:
    each = {name: closed.settings(name, sandbox_url=sandbox) for name in ACTORS}
    api = database_of(closed.settings("api"), "api")
    agent = await make_agent(api, name=f"Watch {uuid4()}")
    with capture_logs() as lines:
        async with running(each):
            for number in (1, 2):
                await _ask_to_run(api, agent)
                ended = await ended_iteration(api, agent, number)
                assert (ended.status, ended.errors) == (IterationStatus.COMPLETED, [])
    wrong = [line for line in lines if line["log_level"] in ("warning", "error")]
    assert [line for line in wrong if not line["event"].startswith("waiting for")] == []
    analysis_id = await _an_analysis(ours, agent.id)
    await _advise(closed, Scope(agent.owner_id, agent.id), f"Facts [node:{analysis_id}].")
    async with api.transaction() as session:
        assert (await session.scalars(select(InboxItem.agent_id))).all() == [agent.id]
        await session.delete(await session.merge(agent))
    await api.close()


async def _ask_to_run(api: Database, agent: Agent) -> None:
    async with api.transaction() as session:
        asked = await session.get_one(Agent, agent.id)
        asked.run_requested_at = await iterations.clock(session)


async def _an_analysis(ours: Database, agent_id: Any) -> Any:
    async with ours.transaction() as session:
        return (
            await session.scalars(
                select(GraphNode.id).where(
                    GraphNode.agent_id == agent_id, GraphNode.type == ANALYSIS_TYPE
                )
            )
        ).first()


async def _advise(closed: Guarded, scope: Scope, content: str) -> None:
    """What the Adviser's tool does; the sandbox's reader advises too rarely to wait for it."""
    database = database_of(closed.settings("adviser"), "adviser")
    try:
        async with database.transaction() as session:
            await conclusions.add_advice(
                session, scope, name="Hold", action="HOLD", summary="Hold.", content=content
            )
    finally:
        await database.close()


NODE = (
    "insert into graph_nodes (id, agent_id, type, name, properties)"
    " values (gen_random_uuid(), gen_random_uuid(), '{}', 'x', '{{}}')"
)
STEP = (
    "insert into steps (id, iteration_id, agent_id, kind, index, status)"
    " values (gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), '{}', 0, 'pending')"
)
LETTER = (
    "insert into dead_letters (id, actor, subject, payload, code, error, attempts)"
    " values (gen_random_uuid(), '{}', 'analysis.produced', '', '', '', 1)"
)
WISHED_LETTER = (
    "insert into dead_letters (id, actor, subject, payload, code, error, attempts, retry_requested_at)"
    " values (gen_random_uuid(), 'researcher', 'query.requested', '', '', '', 1, now())"
)
INTERACTION = (
    "insert into llm_interactions (id, agent_id, phase, model, system_prompt, request)"
    " values (gen_random_uuid(), gen_random_uuid(), '{}', 'm', 's', '{{}}')"
)

DENIED = [
    *(
        ("researcher", statement)
        for statement in (
            "insert into inbox_items (id) values (gen_random_uuid())",
            "insert into messages (id) values (gen_random_uuid())",
            "insert into conversations (id) values (gen_random_uuid())",
            "insert into agents (id) values (gen_random_uuid())",
            "insert into iterations (id) values (gen_random_uuid())",
            "update agents set mission = 'another'",
            "update agents set next_run_at = now()",
            "update iterations set status = 'completed'",
            "update steps set input = '{}'",
            "update steps set kind = 'query'",
            "update graph_nodes set type = 'AgentAdvice'",
            "update graph_nodes set agent_id = gen_random_uuid()",
            "update calls set request_hash = ''",
            "delete from graph_nodes",
            "delete from dead_letters",
            "select payload from dead_letters",
            "update dead_letters set payload = ''",
            "update dead_letters set retry_requested_at = now()",
            "update steps set retry_requested_at = now()",
            LETTER.format("aggregator"),
            WISHED_LETTER,
            "select * from inbox_items",
            "select * from messages",
            "select * from users",
            "select * from pg_authid",
            "select * from alembic_version",
            "truncate graph_nodes",
            "create table mine (id int)",
            "create temporary table mine (id int)",
            "alter table graph_nodes disable row level security",
            "create role another",
            "set role vigil_adviser",
            "copy graph_nodes to program 'cat'",
            NODE.format("AgentAdvice"),
            NODE.format("AgentAnalysis"),
            STEP.format("advise"),
            STEP.format("query"),
            INTERACTION.format("advice_generation"),
        )
    ),
    ("analyzer", NODE.format("AgentAdvice")),
    ("analyzer", NODE.format("Company")),
    ("analyzer", "update graph_nodes set properties = '{}'"),
    ("analyzer", "insert into inbox_items (id) values (gen_random_uuid())"),
    ("adviser", NODE.format("AgentAnalysis")),
    ("adviser", "insert into graph_edges (id) values (gen_random_uuid())"),
    ("adviser", "select * from messages"),
    ("observer", NODE.format("Company")),
    ("observer", STEP.format("advise")),
    ("observer", "update agents set active = false"),
    ("scheduler", "update agents set mission = 'another'"),
    ("scheduler", "update agents set active = false"),
    ("scheduler", "update steps set status = 'completed'"),
    ("scheduler", STEP.format("query")),
    ("scheduler", "update dead_letters set retry_requested_at = now()"),
    ("scheduler", "update dead_letters set payload = ''"),
    ("scheduler", "update steps set retry_requested_at = now()"),
    ("scheduler", LETTER.format("aggregator")),
    ("scheduler", "select * from graph_nodes"),
    ("scheduler", "select * from llm_interactions"),
    ("aggregator", "select answer from calls"),
    ("aggregator", "select * from graph_nodes"),
    ("aggregator", STEP.format("query")),
    ("aggregator", "update steps set result = '{}'"),
    ("api", "insert into graph_nodes (id) values (gen_random_uuid())"),
    ("api", "update steps set status = 'completed'"),
    ("api", "update iterations set status = 'completed'"),
    ("api", "update dead_letters set payload = ''"),
    ("api", LETTER.format("api")),
    ("operator", "select mission from agents"),
    ("operator", "select * from graph_nodes"),
    ("operator", "select * from llm_interactions"),
    ("operator", "delete from dead_letters"),
]


@pytest.mark.parametrize(("actor", "statement"), DENIED)
def test_postgres_denies(closed: Guarded, actor: str, statement: str) -> None:
    with closed.connect(actor) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement)


@pytest.mark.parametrize("actor", ROLES)
def test_a_table_that_is_added_later_is_denied_to_all(closed: Guarded, actor: str) -> None:
    with closed.connect("migrate") as owner:
        owner.execute("create table if not exists api_tokens (hash text)")
    roles.apply(
        database_url_of(closed.migrator(), "migrate"),
        {name: closed.settings(name).database_password.get_secret_value() for name in ROLES},  # type: ignore[union-attr]  # there is one for each
    )
    with closed.connect(actor) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("select * from api_tokens")


async def test_steps_and_conclusions_of_others_cannot_be_touched(
    closed: Guarded, ours: Database
) -> None:
    agent = await make_agent(ours, name=f"Watch {uuid4()}")
    iteration_id = uuid4()
    with closed.connect("migrate") as owner:
        owner.execute(
            "insert into iterations (id, agent_id, number, why, deadline_at)"
            " values (%s, %s, 1, 'due', now() + interval '1 hour')",
            (iteration_id, agent.id),
        )
        for kind in ("query", "insight"):
            owner.execute(
                "insert into steps (id, iteration_id, agent_id, kind, index, status)"
                " values (gen_random_uuid(), %s, %s, %s, 0, 'pending')",
                (iteration_id, agent.id, kind),
            )
        owner.execute(
            "insert into graph_node_types (agent_id, name, description, properties_schema, created_by)"
            " values (%s, 'AgentAdvice', '', '{}', 'system')",
            (agent.id,),
        )
        owner.execute(
            "insert into graph_nodes (id, agent_id, type, name, properties)"
            " values (gen_random_uuid(), %s, 'AgentAdvice', 'x', '{}')",
            (agent.id,),
        )
    with closed.connect("researcher") as researcher:
        claimed = researcher.execute(
            "update steps set status = 'failed' where iteration_id = %s returning kind",
            (iteration_id,),
        ).fetchall()
        rewritten = researcher.execute(
            "update graph_nodes set properties = '{\"a\": 1}' where agent_id = %s", (agent.id,)
        ).rowcount
    assert (claimed, rewritten) == ([("query",)], 0)


@pytest.mark.parametrize("actor", ROLES)
def test_postgres_asks_for_the_actors_own_password(closed: Guarded, actor: str) -> None:
    wrong = closed.settings(actor, database_password="wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(database_url_of(wrong, actor))


OF_OTHERS = {name: next(other for other in CONSUMERS if other != name) for name in PERMISSIONS}


def forbidden() -> Iterator[tuple[str, str]]:
    """User and subject: what must be refused to be said."""
    for user in PERMISSIONS:
        other = OF_OTHERS[user]
        yield from (
            (user, subject)
            for subject in (
                f"$JS.API.STREAM.DELETE.{STREAM}",
                f"$JS.API.STREAM.PURGE.{STREAM}",
                f"$JS.API.STREAM.MSG.DELETE.{STREAM}",
                "$JS.API.STREAM.CREATE.ANOTHER",
                f"$JS.API.CONSUMER.PAUSE.{STREAM}.{other}",
                f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{other}",
                f"$JS.API.CONSUMER.CREATE.{STREAM}.{other}",
                f"$JS.API.CONSUMER.CREATE.{STREAM}.{other}.query.requested",
                f"$JS.ACK.{STREAM}.{other}.1.1.1.1.1",
                f"_INBOX_{other}.abc",
                "$SYS.REQ.SERVER.PING",
            )
        )
        if user != "migrate":
            yield user, f"$JS.API.STREAM.UPDATE.{STREAM}"
            yield user, f"$JS.API.CONSUMER.DURABLE.CREATE.{STREAM}.{other}"
            # Whose deliver policy is an older version's is made again by migrate, and by nobody else.
            yield user, f"$JS.API.CONSUMER.DELETE.{STREAM}.{other}"
    for subject in ("analysis.produced", "advice.produced", "iteration.completed", "plan.produced"):
        for user in ("researcher", "api", "operator", "migrate"):
            yield user, subject
    yield "analyzer", "advice.produced"
    yield "adviser", "analysis.produced"
    yield "observer", "iteration.started"
    yield "aggregator", "advice.produced"


@pytest.mark.parametrize("user", list(PERMISSIONS))
async def test_nats_denies_to_say(closed: Guarded, user: str) -> None:
    subjects = sorted(subject for whose, subject in forbidden() if whose == user)
    async with connected(closed, user) as (client, complaints):
        for subject in subjects:
            await client.publish(subject, b"{}")
        await client.flush()

        async def refused() -> list[str]:
            return [each for each in subjects if not _complained("publish", each, complaints)]

        await until(lambda: _none_left(refused), what="NATS to refuse each of them", seconds=5)


async def _none_left(find: Any) -> bool:
    left = await find()
    return not left


@pytest.mark.parametrize("user", list(PERMISSIONS))
async def test_nats_denies_to_hear(closed: Guarded, user: str) -> None:
    other = OF_OTHERS[user]
    subjects = [f"_INBOX_{other}.>", "*.>", ">", "$SYS.>", "$JS.>"]
    if user not in ("api", "operator"):
        subjects += ["query.*", "advice.produced"]
    async with connected(closed, user) as (client, complaints):
        for subject in subjects:
            await client.subscribe(subject)
        await client.flush()

        async def all_refused() -> bool:
            return all(_complained("subscription", each, complaints) for each in subjects)

        await until(all_refused, what=f"NATS to refuse {subjects}", seconds=5)


def _complained(verb: str, subject: str, complaints: list[str]) -> bool:
    wanted = f'permissions violation for {verb} to "{subject}"'.lower()
    return any(wanted in complaint.lower() for complaint in complaints)


@asynccontextmanager
async def connected(closed: Guarded, user: str) -> AsyncIterator[tuple[Client, list[str]]]:
    """A client of that user, and what NATS complains about to it."""
    complaints: list[str] = []

    async def hear(error: Exception) -> None:
        complaints.append(str(error))

    options = credentials_of(closed.settings(user), user).options()
    client = await nats.connect(closed.nats_url, error_cb=hear, **options)
    yield client, complaints
    await client.close()


async def test_what_is_forbidden_is_said_in_the_log(
    closed: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_module, "PUBLISH_TIMEOUT_SECONDS", 0.5)
    bus = bus_of(closed.settings("researcher"), "researcher")
    await bus.connect()
    event = AnalysisProduced.of(
        agent_id=uuid4(),
        iteration_id=uuid4(),
        step_id=uuid4(),
        occurred_at=datetime.now(UTC),
        analysis_ids=[],
    )
    with (
        capture_logs() as lines,
        pytest.raises(TransientError, match=r"analysis\.produced: it forbids it to researcher"),
    ):
        await bus.publish(event)
    await bus.close()
    said = [line for line in lines if line["event"].startswith("NATS forbids this to researcher")]
    assert [(line["verb"], line["subject"]) for line in said] == [("publish", "analysis.produced")]


async def test_who_shows_a_wrong_password_is_not_let_in_and_says_so(closed: Guarded) -> None:
    wrong = closed.settings("researcher", nats_password="wrong")
    bus = bus_of(wrong, "researcher")
    with (
        capture_logs() as lines,
        pytest.raises(PermanentError, match="does not let researcher in"),
    ):
        await bus.connect()
    await bus.close()
    assert [line["event"] for line in lines] == ["NATS does not let researcher in"]
    assert "wrong" not in str(lines)
    with pytest.raises(TransientError, match="does not let 'researcher' in"):
        async with listening(closed.nats_url, credentials_of(wrong, "researcher")):
            pass
    with pytest.raises(TransientError, match="does not let"):
        async with listening(closed.nats_url, Credentials("nobody")):
            pass


@pytest.mark.parametrize("user", ["api", "operator"])
async def test_readers_follow_the_stream(closed: Guarded, user: str) -> None:
    bus = bus_of(closed.settings("researcher"), "researcher")
    await bus.connect()
    event = QueryFailed.of(
        agent_id=uuid4(),
        iteration_id=uuid4(),
        step_id=uuid4(),
        occurred_at=datetime.now(UTC),
        error="no answer",
    )
    await bus.publish(event)
    await bus.close()
    async with listening(closed.nats_url, credentials_of(closed.settings(user), user)) as client:
        kept = await stored(client)
        assert kept is not None
        async with asyncio.timeout(10):
            async for told in follow(client, "query.*", from_sequence=1):
                if told.event == event:
                    break
        for consumer in CONSUMERS:
            assert await client.jetstream().consumer_info(STREAM, consumer)


async def test_any_client_hears_events_with_the_operators_user(closed: Guarded) -> None:
    password = closed.settings("operator").nats_password
    assert password is not None
    client = await nats.connect(
        closed.nats_url, user="operator", password=password.get_secret_value()
    )
    heard = await client.subscribe("query.*")
    await client.flush()
    bus = bus_of(closed.settings("researcher"), "researcher")
    await bus.connect()
    await bus.publish(
        QueryFailed.of(
            agent_id=uuid4(),
            iteration_id=uuid4(),
            step_id=uuid4(),
            occurred_at=datetime.now(UTC),
            error="no answer",
        )
    )
    await bus.close()
    assert (await heard.next_msg(timeout=5)).subject == "query.failed"
    assert (await client.jetstream().stream_info(STREAM)).config.name == STREAM
    await client.close()


async def test_provisioning_again_changes_nothing(closed: Guarded) -> None:
    before = _policies(closed)
    assert before
    await provision(closed.migrator())
    assert _policies(closed) == before


def _policies(closed: Guarded) -> list[tuple[Any, ...]]:
    with closed.connect("migrate") as owner:
        return owner.execute("select oid, polname from pg_policy order by oid").fetchall()


async def test_provisioning_says_which_key_is_missing(closed: Guarded, tmp_path: Any) -> None:
    settings = closed.migrator().model_copy(update={"keys_dir": tmp_path})
    with pytest.raises(PermanentError, match=r"vigil_database_password.*run `vigil keys`"):
        await provision(settings)


def test_passwords_stand_in_no_log_of_postgres(closed: Guarded) -> None:
    with closed.connect("migrate") as owner:
        stored_as = owner.execute(
            "select rolname, rolpassword from pg_authid where rolname like 'vigil\\_%'"
        ).fetchall()
    assert len(stored_as) == len(ROLES)
    assert all(password.startswith("SCRAM-SHA-256$") for _, password in stored_as)
