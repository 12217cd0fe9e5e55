"""An installation that requires passwords: its own engines, keys, roles and users."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from cli.cluster.keys import Keys
from cli.local.nats import EmbeddedNats
from cli.local.ports import free_port
from cli.local.postgres import EmbeddedPostgres
from shared.database.engine import role_in_url
from shared.runtime.credentials import build_database_url
from shared.runtime.settings import Settings

DATABASE = "vigil"
SUPERUSER = "postgres"


@dataclass(frozen=True)
class SecuredInstallation:
    keys: Path
    database_url: str
    """The URL without a role."""
    nats_url: str

    def settings(self, name: str, **others: Any) -> Settings:
        """The settings that the process of that name reads from its key files."""
        values: dict[str, Any] = {
            "database_url": self.database_url,
            "nats_url": self.nats_url,
            **{file.name.removeprefix("vigil_"): file.read_text() for file in self._files(name)},
            "scheduler_tick_seconds": 0.1,
            "drain_seconds": 2.0,
            **others,
        }
        return Settings.model_validate(values)

    def migrator(self) -> Settings:
        return self.settings("migrate", database_user=SUPERUSER, keys_dir=self.keys)

    def connect(self, name: str) -> psycopg.Connection:
        """Connect to PostgreSQL as that service."""
        settings = self.migrator() if name == "migrate" else self.settings(name)
        url = build_database_url(settings, name)
        assert role_in_url(url) == (SUPERUSER if name == "migrate" else f"vigil_{name}")
        return psycopg.connect(url, autocommit=True)

    def _files(self, name: str) -> Iterator[Path]:
        return (self.keys / name).iterdir()


@contextmanager
def secured_installation(home: Path) -> Iterator[SecuredInstallation]:
    keys = home / "keys"
    password_file = home / "postgres_password"
    Keys(keys).make(postgres_password_file=password_file, routes=[])
    nats = EmbeddedNats(
        home / "nats",
        free_port(),
        home / "nats.log",
        durable=False,
        include=keys / "nats" / "users.conf",
    )
    postgres = EmbeddedPostgres(home / "postgres", home / "postgres.log", durable=False)
    nats.start()
    try:
        postgres.start()
        _require_passwords(postgres, password_file.read_text())
        yield SecuredInstallation(keys, _without_role(postgres.url(DATABASE)), nats.url)
    finally:
        nats.stop()
        postgres.stop()


def _without_role(url: str) -> str:
    return url.replace(f"{SUPERUSER}@", "", 1)


def _require_passwords(postgres: EmbeddedPostgres, password: str) -> None:
    """Set the superuser's password, and require passwords from then on."""
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("alter role postgres password {}").format(sql.Literal(password)))
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(DATABASE)))
        (postgres.data / "pg_hba.conf").write_text("local all all scram-sha-256\n")
        connection.execute("select pg_reload_conf()")
