"""Statements that Postgres denies to the role of each service."""

from uuid import uuid4

import psycopg
import pytest

from shared.database import roles
from shared.database.engine import Database
from shared.database.grants import GRANTS
from shared.runtime.credentials import build_database_url
from tests.support.case_files import read_cases
from tests.support.factories import make_agent
from tests.support.secured_installation import SecuredInstallation

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
