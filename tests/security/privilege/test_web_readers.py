"""Services that read the web: no conversations, no lowered spending, no notices of their own words."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final
from uuid import UUID, uuid4

import psycopg
import pytest

from shared.billing.budgets import (
    CapUsage,
    ExceededCap,
    Scope,
    Unit,
    explain_exceeded_cap,
    notice_title,
    spending_notices,
)
from shared.database.engine import Database
from shared.database.tables import Agent
from shared.enums import Phase
from shared.runtime.connections import create_database
from tests.support.factories import make_agent
from tests.support.secured_installation import SecuredInstallation

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
