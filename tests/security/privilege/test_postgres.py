"""What the roles of PostgreSQL and NATS permit."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID, uuid4

import nats
import psycopg
import pytest
from nats.aio.client import Client
from structlog.testing import capture_logs

from services.scheduler.stream_keeper import StreamKeeper
from shared.billing.budgets import (
    CapUsage,
    ExceededCap,
    Scope,
    Unit,
    explain_exceeded_cap,
    notice_title,
    spending_notices,
)
from shared.database import roles
from shared.database.engine import Database
from shared.database.grants import GRANTS
from shared.database.tables import Agent
from shared.enums import Phase
from shared.errors import PermanentError, TransientError
from shared.events import stream_reader
from shared.events.credentials import Credentials
from shared.events.models import AnalysisProduced, QueryFailed
from shared.events.permissions import MIGRATE, PERMISSIONS, SCHEDULER
from shared.events.stream_admin import find_consumer_fault
from shared.events.stream_reader import connect_reader, follow, stream_state
from shared.events.topology import CONSUMERS, STREAM
from shared.runtime import bus as bus_module
from shared.runtime.connections import create_bus, create_database
from shared.runtime.credentials import build_database_url, build_nats_credentials
from shared.runtime.provision import provision
from tests.support.case_files import read_cases
from tests.support.factories import make_agent
from tests.support.secured_installation import SecuredInstallation
from tests.support.waiting import wait_until

CASES = read_cases(__file__)


ROLES = sorted(GRANTS)


def test_postgres_denies(installation: SecuredInstallation, subtests: pytest.Subtests) -> None:
    for services, statement in CASES["denied"]:
        for service in services.split(", "):
            with (
                subtests.test(f"{service}: {statement}"),
                installation.connect(service) as connection,
                pytest.raises(psycopg.errors.InsufficientPrivilege),
            ):
                connection.execute(statement)


@pytest.mark.parametrize("service", ["observer", "researcher", "analyzer", "adviser"])
def test_services_that_make_calls_may_store_their_references(
    installation: SecuredInstallation, service: str
) -> None:
    with installation.connect(service) as connection:
        connection.execute("update calls set provider_ref = 'r' where answered_at is null")


def test_a_table_added_later_is_denied_to_all_roles(
    installation: SecuredInstallation, subtests: pytest.Subtests
) -> None:
    with installation.connect("migrate") as owner:
        owner.execute("create table if not exists added_later (word text)")
    roles.apply(
        build_database_url(installation.migrator(), "migrate"),
        {name: installation.settings(name).database_password.get_secret_value() for name in ROLES},  # type: ignore[union-attr]  # every role has one
    )
    for service in ROLES:
        with (
            subtests.test(service),
            installation.connect(service) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            connection.execute("select * from added_later")


async def test_steps_and_conclusions_of_other_services_cannot_be_changed(
    installation: SecuredInstallation, owner_database: Database
) -> None:
    agent = await make_agent(owner_database, name=f"Watch {uuid4()}")
    iteration_id = uuid4()
    with installation.connect("migrate") as owner:
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
    with installation.connect("researcher") as researcher:
        updated_kinds = researcher.execute(
            "update steps set status = 'failed' where iteration_id = %s returning kind",
            (iteration_id,),
        ).fetchall()
        updated_nodes = researcher.execute(
            "update graph_nodes set properties = '{\"a\": 1}' where agent_id = %s", (agent.id,)
        ).rowcount
    assert (updated_kinds, updated_nodes) == ([("query",)], 0)


def test_postgres_requires_the_password_of_the_role(
    installation: SecuredInstallation, subtests: pytest.Subtests
) -> None:
    for service in ROLES:
        wrong = installation.settings(service, database_password="wrong")
        with (
            subtests.test(service),
            pytest.raises(psycopg.OperationalError, match="password authentication failed"),
        ):
            psycopg.connect(build_database_url(wrong, service))


def test_passwords_are_stored_only_as_scram_hashes(installation: SecuredInstallation) -> None:
    with installation.connect("migrate") as owner:
        rows = owner.execute(
            "select rolname, rolpassword from pg_authid where rolname like 'vigil\\_%'"
        ).fetchall()
    assert len(rows) == len(ROLES)
    assert all(password.startswith("SCRAM-SHA-256$") for _, password in rows)


OTHER_CONSUMER = {name: next(other for other in CONSUMERS if other != name) for name in PERMISSIONS}


def forbidden_subjects() -> Iterator[tuple[str, str]]:
    """Yield users and the subjects that they must not publish."""
    for user in PERMISSIONS:
        other = OTHER_CONSUMER[user]
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
            if user != SCHEDULER:  # which creates consumers that NATS has lost
                yield user, f"$JS.API.CONSUMER.DURABLE.CREATE.{STREAM}.{other}"
            # Only migrate recreates consumers with the deliver policy of an older version.
            yield user, f"$JS.API.CONSUMER.DELETE.{STREAM}.{other}"
    for subject in ("analysis.produced", "advice.produced", "iteration.completed", "plan.produced"):
        for user in ("researcher", "api", "operator", "migrate"):
            yield user, subject
    yield "analyzer", "advice.produced"
    yield "adviser", "analysis.produced"
    yield "observer", "iteration.started"
    yield "aggregator", "advice.produced"


@pytest.mark.parametrize("user", list(PERMISSIONS))
async def test_nats_denies_publishing(installation: SecuredInstallation, user: str) -> None:
    subjects = sorted(subject for other_user, subject in forbidden_subjects() if other_user == user)
    async with connected(installation, user) as (client, complaints):
        for subject in subjects:
            await client.publish(subject, b"{}")
        await client.flush()

        async def not_refused() -> list[str]:
            return [
                subject for subject in subjects if not _complained("publish", subject, complaints)
            ]

        await wait_until(
            lambda: _none_left(not_refused), what="NATS to refuse each of them", seconds=5
        )


async def _none_left(find: Any) -> bool:
    remaining = await find()
    return not remaining


@pytest.mark.parametrize("user", list(PERMISSIONS))
async def test_nats_denies_subscribing(installation: SecuredInstallation, user: str) -> None:
    other = OTHER_CONSUMER[user]
    subjects = [f"_INBOX_{other}.>", "*.>", ">", "$SYS.>", "$JS.>"]
    if user not in ("api", "operator"):
        subjects += ["query.*", "advice.produced"]
    async with connected(installation, user) as (client, complaints):
        for subject in subjects:
            await client.subscribe(subject)
        await client.flush()

        async def all_refused() -> bool:
            return all(_complained("subscription", subject, complaints) for subject in subjects)

        await wait_until(all_refused, what=f"NATS to refuse {subjects}", seconds=5)


def _complained(verb: str, subject: str, complaints: list[str]) -> bool:
    message = f'permissions violation for {verb} to "{subject}"'.lower()
    return any(message in complaint.lower() for complaint in complaints)


@asynccontextmanager
async def connected(
    installation: SecuredInstallation, user: str
) -> AsyncIterator[tuple[Client, list[str]]]:
    """Yield a client of the user, and the errors that NATS reports to it."""
    complaints: list[str] = []

    async def on_error(error: Exception) -> None:
        complaints.append(str(error))

    options = build_nats_credentials(installation.settings(user), user).options()
    client = await nats.connect(installation.nats_url, error_cb=on_error, **options)
    yield client, complaints
    await client.close()


async def test_the_scheduler_creates_a_lost_consumer_again(
    installation: SecuredInstallation,
) -> None:
    async with connected(installation, MIGRATE) as (client, _):
        jetstream = client.jetstream()
        await jetstream.delete_consumer(STREAM, "notifier")
        settings = installation.settings(SCHEDULER)
        bus = create_bus(settings, SCHEDULER)
        await bus.connect()
        keeper = StreamKeeper(bus, settings)
        for _ in range(2):
            await keeper.check()
        await bus.close()
        assert await find_consumer_fault(jetstream, CONSUMERS["notifier"]) is None


async def test_a_scheduler_with_permissions_of_an_older_version_stops_checking(
    installation: SecuredInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The observer may not ask for other consumers either."""
    monkeypatch.setattr(bus_module, "PUBLISH_TIMEOUT_SECONDS", 0.5)
    settings = installation.settings("observer")
    bus = create_bus(settings, "observer")
    await bus.connect()
    assert not bus.forbids("$JS.API.")
    with pytest.raises(TransientError):
        await StreamKeeper(bus, settings).check()
    assert bus.forbids("$JS.API.")
    await bus.close()


@pytest.mark.parametrize("user", ["api", "operator"])
async def test_readers_follow_the_stream(installation: SecuredInstallation, user: str) -> None:
    bus = create_bus(installation.settings("researcher"), "researcher")
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
    async with connect_reader(
        installation.nats_url, build_nats_credentials(installation.settings(user), user)
    ) as client:
        state = await stream_state(client)
        assert state is not None
        async with asyncio.timeout(10):
            async for stored in follow(client, "query.*", from_sequence=1):
                if stored.event == event:
                    break
        for consumer in CONSUMERS:
            assert await client.jetstream().consumer_info(STREAM, consumer)


async def test_any_client_receives_events_with_the_operators_user(
    installation: SecuredInstallation,
) -> None:
    password = installation.settings("operator").nats_password
    assert password is not None
    client = await nats.connect(
        installation.nats_url, user="operator", password=password.get_secret_value()
    )
    subscription = await client.subscribe("query.*")
    await client.flush()
    bus = create_bus(installation.settings("researcher"), "researcher")
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
    assert (await subscription.next_msg(timeout=5)).subject == "query.failed"
    assert (await client.jetstream().stream_info(STREAM)).config.name == STREAM
    await client.close()


async def test_a_forbidden_publication_is_logged(
    installation: SecuredInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_module, "PUBLISH_TIMEOUT_SECONDS", 0.5)
    bus = create_bus(installation.settings("researcher"), "researcher")
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
        pytest.raises(TransientError, match=r"analysis\.produced: researcher may not publish it"),
    ):
        await bus.publish(event)
    await bus.close()
    refusals = [
        line for line in lines if line["event"].startswith("NATS denies an operation to researcher")
    ]
    assert [(line["verb"], line["subject"]) for line in refusals] == [
        ("publish", "analysis.produced")
    ]


async def test_a_wrong_password_is_rejected_and_logged(
    installation: SecuredInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_reader, "CONNECT_SECONDS", 1.0)
    wrong = installation.settings("researcher", nats_password="wrong")
    bus = create_bus(wrong, "researcher")
    with (
        capture_logs() as lines,
        pytest.raises(PermanentError, match="NATS rejects the user researcher"),
    ):
        await bus.connect()
    await bus.close()
    assert [line["event"] for line in lines] == ["NATS rejects the user researcher"]
    assert "wrong" not in str(lines)
    with pytest.raises(TransientError, match="rejects the user 'researcher'"):
        async with connect_reader(
            installation.nats_url, build_nats_credentials(wrong, "researcher")
        ):
            pass
    with pytest.raises(TransientError, match="rejects the user"):
        async with connect_reader(installation.nats_url, Credentials("nobody")):
            pass


async def test_provisioning_again_changes_nothing(installation: SecuredInstallation) -> None:
    before = _policies(installation)
    assert before
    await provision(installation.migrator())
    assert _policies(installation) == before


def _policies(installation: SecuredInstallation) -> list[tuple[Any, ...]]:
    with installation.connect("migrate") as owner:
        return owner.execute("select oid, polname from pg_policy order by oid").fetchall()


async def test_provisioning_names_the_missing_key(
    installation: SecuredInstallation, tmp_path: Any
) -> None:
    settings = installation.migrator().model_copy(update={"keys_dir": tmp_path})
    with pytest.raises(PermanentError, match=r"vigil_database_password.*run `vigil keys`"):
        await provision(settings)


READERS: Final = ("researcher", "observer", "analyzer", "adviser")
OWN_PHASE: Final = {
    "researcher": Phase.GRAPH_CONSTRUCTION,
    "observer": Phase.OBSERVER,
    "analyzer": Phase.ANALYSIS_GENERATION,
    "adviser": Phase.ADVICE_GENERATION,
}
SECRET: Final = "what Alice said"


@pytest.fixture
async def agent(owner_database: Database) -> Agent:
    return await make_agent(owner_database, name=f"Watch {uuid4()}")


RUN: Final = """
with step as (
  insert into steps (id, agent_id, kind, index, status)
  values (gen_random_uuid(), %(agent)s, 'converse', 0, 'completed') returning id
), run as (
  insert into llm_interactions (id, agent_id, step_id, phase, model, system_prompt, request, message)
  select gen_random_uuid(), %(agent)s, id, %(phase)s, 'm', %(text)s, '{}', convert_to(%(text)s, 'utf8') from step
  returning id, step_id
)
insert into calls (id, agent_id, step_id, interaction_id, kind, phase, model, request_hash, request, answer)
select gen_random_uuid(), %(agent)s, step_id, id, 'llm', %(phase)s, 'm', 'h',
  jsonb_build_object('text', %(text)s::text), jsonb_build_object('text', %(text)s::text)
from run
"""


def store_run(installation: SecuredInstallation, agent: Agent, phase: Phase) -> None:
    with installation.connect("migrate") as owner:
        values = {"agent": agent.id, "phase": phase, "text": f"{SECRET} in {phase}"}
        owner.execute(RUN, values)


@pytest.mark.parametrize("service", READERS)
async def test_conversations_cannot_be_read(
    installation: SecuredInstallation, agent: Agent, service: str
) -> None:
    for phase in (Phase.CONVERSATION, OWN_PHASE[service]):
        store_run(installation, agent, phase)
    with installation.connect(service) as connection:
        for table in ("calls", "llm_interactions"):
            rows = connection.execute(f"select {table}::text from {table}".encode()).fetchall()
            texts = [row[0] for row in rows if str(agent.id) in row[0]]
            assert len(texts) == 1, table
            assert OWN_PHASE[service] in texts[0]


def test_the_assistant_reads_its_conversations(
    installation: SecuredInstallation, agent: Agent
) -> None:
    store_run(installation, agent, Phase.CONVERSATION)
    with installation.connect("assistant") as connection:
        found = connection.execute(
            "select answer ->> 'text' from calls where agent_id = %s", (agent.id,)
        ).fetchall()
    assert found == [(f"{SECRET} in conversation",)]


@pytest.mark.parametrize("service", [*READERS, "assistant", "aggregator", "api"])
async def test_what_was_spent_only_grows(
    installation: SecuredInstallation, agent: Agent, service: str
) -> None:
    day = date(2026, 1, 1)
    with installation.connect("migrate") as owner:
        owner.execute(
            "insert into budget_days (scope, day, spent_usd, spent_calls) values (%s, %s, 5, 5)",
            (agent.id, day),
        )
    with installation.connect(service) as connection:
        change = "update budget_days set {} where scope = %s"
        for lowered in ("spent_usd = 4.99", "spent_calls = 0", "spent_usd = 6, spent_calls = 4"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="cannot be lowered"):
                connection.execute(change.format(lowered).encode(), (agent.id,))
        grown = "spent_usd = spent_usd + 1, spent_calls = spent_calls + 1, reserved_usd = 0"
        assert connection.execute(change.format(grown).encode(), (agent.id,)).rowcount == 1


@pytest.mark.parametrize("service", ["researcher", "observer", "analyzer", "adviser"])
async def test_a_suspension_is_not_ended(
    installation: SecuredInstallation, agent: Agent, service: str
) -> None:
    until = datetime.now(UTC) + timedelta(hours=5)
    change = "update agents set suspended_until = %s where id = %s"
    with installation.connect("api") as api:
        api.execute(change, (until, agent.id))
        with installation.connect(service) as connection:
            for earlier in (None, until - timedelta(seconds=1)):
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match="suspension"):
                    connection.execute(change, (earlier, agent.id))
            connection.execute(change, (until, agent.id))
            connection.execute(change, (until + timedelta(days=1), agent.id))
        api.execute(change, (None, agent.id))


NAMES: Final = ("Watch", "is suspended", "a.b (c) [d] 100 %", "O'Neil's \\ watch", "éclair")
NOTICE: Final = (
    "insert into inbox_items (id, owner_id, agent_id, kind, title, summary)"
    " values (gen_random_uuid(), %s, %s, 'notice', %s, %s)"
)


def known_notices(name: str) -> Iterator[tuple[str, str]]:
    """Title and summary."""
    for scope in Scope:
        for unit in Unit:
            for cap, spent in (("1", "1"), ("20", "19"), ("0.00012345", "0"), ("1500.50", "1500")):
                usage = CapUsage(cap=Decimal(cap), spent=Decimal(spent), reserved=Decimal(0))
                exceeded = ExceededCap(scope, unit, usage, Decimal("0.1234567"), date(2026, 2, 3))
                yield notice_title(name, exceeded), explain_exceeded_cap(exceeded)


async def renamed(database: Database, agent: Agent, name: str) -> str:
    """A name that no other agent has, with these characters."""
    name = f"{name} {uuid4()}"[:80]
    async with database.transaction() as session:
        await session.update(Agent, agent.id, name=name)
    return name


@pytest.mark.parametrize("service", READERS)
@pytest.mark.parametrize("name", NAMES)
async def test_known_notices_are_written(
    installation: SecuredInstallation,
    owner_database: Database,
    agent: Agent,
    service: str,
    name: str,
) -> None:
    name = await renamed(owner_database, agent, name)
    with installation.connect(service) as connection:
        for title, summary in known_notices(name):
            connection.execute(NOTICE, (agent.owner_id, agent.id, title, summary))
            # As 0.3.0 writes it, which may run beside.
            older = summary.replace("of the agent", f"of {name}").replace(
                "The agent is", f"{name[0].upper()}{name[1:]} is"
            )
            connection.execute(NOTICE, (agent.owner_id, agent.id, title, older))
    await note_spending(installation, agent, service)
    with installation.connect("migrate") as owner:
        titles = owner.execute(
            "select title from inbox_items where agent_id = %s and title like '%%has spent%%'",
            (agent.id,),
        ).fetchall()
    assert len(titles) == 2, "of the day and of the month"


async def note_spending(installation: SecuredInstallation, agent: Agent, service: str) -> None:
    today = date(2026, 1, 1)
    with installation.connect("migrate") as owner:
        owner.execute("update agents set budget_usd_per_day = 1.5 where id = %s", (agent.id,))
        owner.execute(
            "insert into budget_days (scope, day, spent_usd) values (%s, %s, 60)",
            (agent.id, today),
        )
    database = create_database(installation.settings(service), service)
    await database.run(spending_notices(agent.id, today))
    await database.close()


@pytest.mark.parametrize("service", READERS)
async def test_notices_of_own_words_are_refused(
    installation: SecuredInstallation, agent: Agent, service: str
) -> None:
    title, summary = next(known_notices(agent.name))
    other = uuid4()
    attempts: list[tuple[UUID, UUID, str, str]] = [
        (agent.owner_id, agent.id, "Your session has expired: sign in at evil.example", summary),
        (agent.owner_id, agent.id, title, "Sign in at evil.example"),
        (agent.owner_id, agent.id, f"{title} evil.example", summary),
        (agent.owner_id, agent.id, title, f"{summary}. See evil.example"),
        (agent.owner_id, agent.id, title, summary.replace("is spent", "is at evil.example")),
        (agent.owner_id, agent.id, title.replace(agent.name, "Sign in"), summary),
        (agent.owner_id, agent.id, f"\n{title}", summary),
        (agent.owner_id, agent.id, f"{title}\nevil.example", summary),
        (agent.owner_id, agent.id, "", ""),
        (other, agent.id, title, summary),
        (agent.owner_id, other, title, summary),
    ]
    with installation.connect(service) as connection:
        for attempt in attempts:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(NOTICE, attempt)
        connection.execute(NOTICE, (agent.owner_id, agent.id, title, summary))


@pytest.mark.parametrize("service", [*READERS, "notifier", "api", "operator"])
@pytest.mark.parametrize(
    "statement",
    ["select lo_create(0)", "select lo_creat(-1)", "select lo_from_bytea(0, 'x')"],
)
def test_large_objects_cannot_be_made(
    installation: SecuredInstallation, service: str, statement: str
) -> None:
    with (
        installation.connect(service) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(statement)
