"""Migrations and roles need no superuser: an owner of the database with CREATEROLE is enough, as in CloudNativePG."""

from pathlib import Path

import psycopg
import yaml

from cli.local.postgres import EmbeddedPostgres
from shared.database import migrate, roles
from shared.database.engine import with_login
from shared.database.grants import GRANTS, role_name
from tests.support.paths import ROOT

CLUSTER = ROOT / "deploy" / "kubernetes" / "components" / "cloudnative-pg" / "cluster.yaml"


def test_the_owner_of_the_kubernetes_cluster_can_migrate_and_create_roles(tmp_path: Path) -> None:
    """Roles belong to the whole server, so this test has its own."""
    initdb = yaml.safe_load(CLUSTER.read_text())["spec"]["bootstrap"]["initdb"]
    server = EmbeddedPostgres(tmp_path / "data", tmp_path / "log", durable=False).start()
    try:
        with psycopg.connect(server.url("postgres"), autocommit=True) as superuser:
            owner, database = initdb["owner"], initdb["database"]
            for statement in (
                f"create role {owner} login password 'owner'",
                *initdb["postInitSQL"],
                f"create database {database} owner {owner}",
            ):
                superuser.execute(statement.encode())
        url = server.url(database)
        with psycopg.connect(url, autocommit=True) as superuser:
            for statement in initdb["postInitApplicationSQL"]:
                superuser.execute(statement.encode())
        owner_url = with_login(url, role=owner, password="owner")
        passwords = {service: f"password of {service}" for service in GRANTS}
        for _ in ("first", "again"):
            assert migrate.upgrade(owner_url).problem is None
            roles.apply(owner_url, passwords)
        _assert_open_transactions_are_seen(url, owner, owner_url)
        with psycopg.connect(owner_url) as connection:
            powers = (
                "select rolname, rolsuper or rolbypassrls from pg_roles where rolname like 'vigil%'"
            )
            assert dict(connection.execute(powers).fetchall()) == {
                owner: False,
                **{role_name(service): False for service in GRANTS},
            }
    finally:
        server.stop()


def _assert_open_transactions_are_seen(url: str, owner: str, owner_url: str) -> None:
    """Those of the services, which a migration waits for. `vigil upgrade --check` says so to an owner without that right."""
    scheduler = with_login(url, role=role_name("scheduler"), password="password of scheduler")
    with psycopg.connect(scheduler) as working:
        working.execute("select 1")
        found = migrate.inspect(owner_url)
        assert not found.hides_transactions
        assert f"process {working.info.backend_pid}" in found.longest_transaction
        with psycopg.connect(url, autocommit=True) as superuser:
            superuser.execute(f"revoke pg_read_all_stats from {owner}".encode())
        found = migrate.inspect(owner_url)
        assert found.hides_transactions
        assert "cannot see" in found.longest_transaction
