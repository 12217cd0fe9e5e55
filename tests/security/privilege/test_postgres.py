"""Statements that Postgres denies to the role of each service."""

from uuid import uuid4

import psycopg
import pytest

from shared.database import roles
from shared.database.engine import Database
from shared.database.grants import GRANTS
from shared.runtime.credentials import build_database_url
from tests.support.factories import make_agent
from tests.support.secured_installation import SecuredInstallation

ROLES = sorted(GRANTS)


NODE = (
    "insert into graph_nodes (id, agent_id, type, name, properties)"
    " values (gen_random_uuid(), gen_random_uuid(), '{}', 'x', '{{}}')"
)
STEP = (
    "insert into steps (id, iteration_id, agent_id, kind, index, status)"
    " values (gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), '{}', 0, 'pending')"
)
DEAD_LETTER = (
    "insert into dead_letters (id, service, subject, payload, code, error, attempts)"
    " values (gen_random_uuid(), '{}', 'analysis.produced', '', '', '', 1)"
)
RETRIED_DEAD_LETTER = (
    "insert into dead_letters (id, service, subject, payload, code, error, attempts, retry_requested_at)"
    " values (gen_random_uuid(), 'researcher', 'query.requested', '', '', '', 1, now())"
)
ADVICE = (
    "insert into inbox_items (id, owner_id, agent_id, title, summary)"
    " values (gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), '', '')"
)
INTERACTION = (
    "insert into llm_interactions (id, agent_id, phase, model, system_prompt, request)"
    " values (gen_random_uuid(), gen_random_uuid(), '{}', 'm', 's', '{{}}')"
)
PIN = (
    "insert into pinned_contexts (iteration_id, kind, round, agent_id, sha256)"
    " values (gen_random_uuid(), '{}', 0, gen_random_uuid(), '')"
)
VERDICT = (
    "insert into entailment_verdicts (evidence_id, agent_id, verdict, reason, model, call_id, step_id)"
    " values (gen_random_uuid(), gen_random_uuid(), 'supported', '', 'm', gen_random_uuid(), gen_random_uuid())"
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
            "update agents set budget_usd_per_day = null",
            "update installation_budget set usd_per_day = null",
            "insert into installation_budget (id) values (1)",
            "delete from budget_days",
            "update budget_days set day = now()",
            "insert into budget_days (scope, day, spent_usd) values (gen_random_uuid(), now(), -1)",
            ADVICE,
            "update dead_letters set payload = ''",
            "update dead_letters set retry_requested_at = now()",
            "update steps set retry_requested_at = now()",
            DEAD_LETTER.format("aggregator"),
            RETRIED_DEAD_LETTER,
            "select * from inbox_items",
            "select * from messages",
            "select * from users",
            "select * from api_tokens",
            "select * from sign_in_links",
            "select * from sessions",
            "update contexts set data = ''",
            "delete from contexts",
            PIN.format("insight"),
            "update pinned_contexts set sha256 = ''",
            "delete from pinned_contexts",
            "update entailment_verdicts set verdict = 'supported'",
            "delete from entailment_verdicts",
            "insert into doubts (id) values (gen_random_uuid())",
            "insert into graph_journal (agent_id, seq) values (gen_random_uuid(), 1)",
            "update graph_journal set seq = 2",
            "delete from graph_journal",
            "update graph_head set seq = 2",
            "select * from graph_changes",
            "insert into graph_changes (transaction_id, agent_id) values (1, gen_random_uuid())",
            "alter table graph_nodes disable trigger all",
            "set session_replication_role = replica",
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
    ("analyzer", PIN.format("query")),
    ("analyzer", VERDICT),
    ("observer", VERDICT),
    ("adviser", "update entailment_verdicts set verdict = 'supported'"),
    ("analyzer", "update graph_nodes set properties = '{}'"),
    ("analyzer", "insert into inbox_items (id) values (gen_random_uuid())"),
    *(
        (service, statement)
        for service in ("observer", "analyzer", "adviser")
        for statement in (
            "select summary from inbox_items",
            "update inbox_items set outcome = 'accepted'",
            "update inbox_items set feedback = 'mine'",
        )
    ),
    ("notifier", "update inbox_items set resolved_at = now()"),
    ("researcher", "select feedback from inbox_items"),
    ("api", "update inbox_items set title = 'mine'"),
    ("adviser", NODE.format("AgentAnalysis")),
    ("adviser", "insert into graph_edges (id) values (gen_random_uuid())"),
    ("adviser", "select * from messages"),
    ("observer", NODE.format("Company")),
    ("observer", PIN.format("insight")),
    ("observer", STEP.format("advise")),
    ("observer", "update agents set active = false"),
    ("scheduler", "update agents set mission = 'another'"),
    ("scheduler", "update agents set active = false"),
    ("scheduler", "update steps set status = 'completed'"),
    ("scheduler", STEP.format("query")),
    ("scheduler", "update dead_letters set retry_requested_at = now()"),
    ("scheduler", "update dead_letters set payload = ''"),
    ("scheduler", "update steps set retry_requested_at = now()"),
    ("scheduler", DEAD_LETTER.format("aggregator")),
    ("scheduler", "select * from graph_nodes"),
    ("scheduler", "select * from llm_interactions"),
    ("scheduler", "select system_prompt from llm_interactions"),
    ("scheduler", "select answer from calls"),
    ("scheduler", "select events from calls"),
    ("scheduler", "select text from sources"),
    ("scheduler", "select data from contexts"),
    ("scheduler", "select claims from evidence"),
    ("scheduler", "select summary from inbox_items"),
    ("scheduler", "update calls set cost_usd = 0"),
    ("scheduler", "update sources set text = ''"),
    ("scheduler", "delete from graph_nodes"),
    ("scheduler", "delete from evidence"),
    ("scheduler", "delete from call_days"),
    ("scheduler", "delete from budget_days"),
    ("api", "delete from call_days"),
    ("api", "update pruned_iterations set calls = 0"),
    ("notifier", "select * from contexts"),
    ("api", "insert into contexts (agent_id) values (gen_random_uuid())"),
    ("aggregator", "select answer from calls"),
    ("aggregator", "select * from graph_nodes"),
    ("aggregator", PIN.format("insight")),
    ("aggregator", STEP.format("observe")),
    ("aggregator", "select mission from agents"),
    ("aggregator", "update agents set feedback_rounds = 2"),
    ("aggregator", "update investigation_requests set answered_at = now()"),
    ("analyzer", "update investigation_requests set not_found = 'x'"),
    ("researcher", "update investigation_requests set objective = ''"),
    ("observer", "update investigation_requests set answered_at = now()"),
    ("observer", "update graph_node_types set name = 'x'"),
    ("researcher", "update graph_node_types set properties_schema = '{}'"),
    ("aggregator", "update steps set result = '{}'"),
    ("api", "insert into graph_nodes (id) values (gen_random_uuid())"),
    ("api", "update steps set status = 'completed'"),
    ("api", "update iterations set status = 'completed'"),
    ("api", "update dead_letters set payload = ''"),
    ("api", DEAD_LETTER.format("api")),
    ("api", "update graph_distinct_pairs set agent_id = gen_random_uuid()"),
    ("api", "update graph_distinct_pairs set one_id = gen_random_uuid()"),
    *(
        (service, statement)
        for service in ("researcher", "analyzer", "adviser", "assistant", "operator")
        for statement in (
            "select * from graph_distinct_pairs",
            "insert into graph_distinct_pairs (id) values (gen_random_uuid())",
            "delete from graph_distinct_pairs",
        )
    ),
    ("api", "update api_tokens set user_id = gen_random_uuid()"),
    ("api", "update sessions set user_id = gen_random_uuid()"),
    ("api", "update users set id = gen_random_uuid()"),
    *(
        (service, f"select * from {table}")
        for service in ("scheduler", "observer", "aggregator", "analyzer", "adviser", "operator")
        for table in ("users", "api_tokens", "sign_in_links", "sessions")
    ),
    ("operator", "select mission from agents"),
    ("operator", "select * from graph_nodes"),
    ("operator", "select * from llm_interactions"),
    ("operator", "delete from dead_letters"),
]


@pytest.mark.parametrize(("service", "statement"), DENIED)
def test_postgres_denies(installation: SecuredInstallation, service: str, statement: str) -> None:
    with (
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


@pytest.mark.parametrize("service", ROLES)
def test_a_table_added_later_is_denied_to_all_roles(
    installation: SecuredInstallation, service: str
) -> None:
    with installation.connect("migrate") as owner:
        owner.execute("create table if not exists added_later (word text)")
    roles.apply(
        build_database_url(installation.migrator(), "migrate"),
        {name: installation.settings(name).database_password.get_secret_value() for name in ROLES},  # type: ignore[union-attr]  # every role has one
    )
    with (
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


@pytest.mark.parametrize("service", ROLES)
def test_postgres_requires_the_password_of_the_role(
    installation: SecuredInstallation, service: str
) -> None:
    wrong = installation.settings(service, database_password="wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(build_database_url(wrong, service))


def test_passwords_are_stored_only_as_scram_hashes(installation: SecuredInstallation) -> None:
    with installation.connect("migrate") as owner:
        rows = owner.execute(
            "select rolname, rolpassword from pg_authid where rolname like 'vigil\\_%'"
        ).fetchall()
    assert len(rows) == len(ROLES)
    assert all(password.startswith("SCRAM-SHA-256$") for _, password in rows)
