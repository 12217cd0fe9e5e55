"""A whole installation whose processes a test may kill; each is restarted, as by a supervisor."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

import psycopg

from cli.local import engines
from cli.local.engines import EngineWatchdog
from cli.local.members import CONSUMER_SERVICES, PRELOAD
from cli.local.nats import EmbeddedNats
from cli.local.ports import free_port
from cli.local.postgres import EmbeddedPostgres
from cli.local.process_pool import Died, ProcessPool
from shared.database.engine import Database
from shared.failpoints import DIRECTORY, Failpoint
from shared.runtime.provision import provision
from shared.runtime.settings import Settings
from tests.support.chaos import released, service, statement_kills
from tests.support.chaos.contained import PostgresContainer
from tests.support.failpoints import arm
from tests.support.sandbox_prices import SANDBOX_PRICES
from tests.support.waiting import wait_until

DATABASE: Final = "vigil"
POLL_SECONDS: Final = 0.02
HASTY: Final = {
    "VIGIL_LEASE_SECONDS": "1.5",
    "VIGIL_RESEND_AFTER_SECONDS": "1.0",
    "VIGIL_SCHEDULER_TICK_SECONDS": "0.1",
    "VIGIL_DRAIN_SECONDS": "1.0",
}
"""Settings with which another worker takes over a killed worker's step within seconds."""


@dataclass
class Installation:
    """Engines and services. A replica is named by its kind and number: `researcher`, `researcher-2`."""

    home: Path
    sandbox_url: str
    nats: EmbeddedNats
    postgres: EmbeddedPostgres | PostgresContainer
    process_pool: ProcessPool
    environment: dict[str, str]
    breakages: Mapping[str, str]
    """The breakage of a service's replicas, by the service's name."""
    armed_together: bool = False
    """Whether an armed failpoint fires in the first replica that reaches it, and in no other."""
    deaths: list[Died] = field(default_factory=list)
    not_restarted: set[str] = field(default_factory=set)
    """Names of the engines and replicas that are not restarted for now."""
    _numbers: Iterator[int] = field(default_factory=lambda: count(1000))

    @property
    def settings(self) -> Settings:
        return Settings(
            database_url=self.postgres.url(DATABASE),
            nats_url=self.nats.url,
            sandbox_url=self.sandbox_url,
        )

    def start_replica(self, name: str, released_tree: Path | None = None) -> None:
        """Start one replica, of a released version if given; its kind is the part of its name before the dash."""
        if released_tree is not None:
            kind = name.partition("-")[0]
            arguments = (str(released_tree), kind)
            self.process_pool.spawn(name, released.run, arguments, self.environment)
            return
        breakage = self.breakages.get(name.partition("-")[0])
        environment = {**self.environment, DIRECTORY: str(self._crash_directory(name))}
        self.process_pool.spawn(name, service.run, (name.partition("-")[0], breakage), environment)

    def add_replica(self, kind: str, released_tree: Path | None = None) -> str:
        """Start a further replica, of a released version if given; return its name."""
        name = f"{kind}-{next(self._numbers)}"
        self.start_replica(name, released_tree)
        return name

    def arm(self, name: str, point: Failpoint, *, skip: int = 0, sends: str = "SIGKILL") -> None:
        """Let the replica send itself that signal at `point`, after it has passed it `skip` times."""
        arm(self._crash_directory(name), point, skip=skip, sends=sends)

    def arm_statement(self, name: str, number: int) -> None:
        """Let the replica kill itself at a statement: see `statement_kills`."""
        statement_kills.arm_statement(self._crash_directory(name), number)

    def is_statement_armed(self, name: str) -> bool:
        return statement_kills.is_armed(self._crash_directory(name))

    def disarm_statement(self, name: str) -> bool:
        """See statement_kills.disarm_statement."""
        return statement_kills.disarm_statement(self._crash_directory(name))

    def statements_passed(self, name: str) -> int:
        return statement_kills.points_passed(self._crash_directory(name))

    def armed(self) -> list[str]:
        """Failpoints that are armed and have not fired."""
        return sorted(
            str(file.relative_to(self.home))
            for file in self.home.glob("crash/*/*")
            if file.exists()
        )

    def disarm(self) -> None:
        for file in self.home.glob("crash/*/*"):
            file.unlink(missing_ok=True)

    def replicas(self, kind: str) -> set[str]:
        """Names of the running replicas of that kind."""
        return {name for name in self.process_pool.pids() if name.partition("-")[0] == kind}

    def send(self, name: str, signal_number: signal.Signals) -> None:
        os.kill(self.process_pool.pids()[name], signal_number)

    def log(self, name: str) -> str:
        return (self.home / "logs" / f"{name}.log").read_text(errors="replace")

    def log_lines(self) -> list[str]:
        """Log lines of every service."""
        return [
            line
            for file in sorted((self.home / "logs").glob("*.log"))
            for line in file.read_text(errors="replace").splitlines()
        ]

    async def wait_for_restart(self, name: str, old_pid: int) -> None:
        async def look() -> bool:
            return self.process_pool.pids().get(name, old_pid) != old_pid

        await wait_until(look, what=f"the {name} to be restarted")

    async def wait_until_running(self, names: Collection[str]) -> None:
        """Wait until all replicas of these names run."""

        async def look() -> bool:
            return self.process_pool.pids().keys() >= set(names)

        await wait_until(look, what=f"{', '.join(sorted(names))} to run")

    async def supervise(self) -> None:
        """Restart processes that died, until cancelled."""
        watchdogs = {engine.name: EngineWatchdog(engine) for engine in (self.nats, self.postgres)}
        while True:
            changes = self.process_pool.poll(self.not_restarted)
            self.deaths += [change for change in changes if isinstance(change, Died)]
            for name, watchdog in watchdogs.items():
                if name not in self.not_restarted:
                    watchdog.look_after()
            await asyncio.sleep(POLL_SECONDS)

    def _crash_directory(self, name: str) -> Path:
        target = name.partition("-")[0] if self.armed_together else name
        directory = self.home / "crash" / target
        directory.mkdir(parents=True, exist_ok=True)
        return directory


@asynccontextmanager
async def running_installation(
    home: Path,
    sandbox_url: str,
    *,
    replicas: Mapping[str, int] | None = None,
    breakages: Mapping[str, str] | None = None,
    settings: Mapping[str, str] = HASTY,
    armed_together: bool = False,
    postgres: PostgresContainer | None = None,
    released_tree: Path | None = None,
) -> AsyncIterator[Installation]:
    """Run an installation with one replica of each service, or as many as `replicas` says.

    `breakages` names what is broken, by service; `postgres` replaces the embedded server. With `released_tree`, all services
    are of the released version whose files are there, and it has provisioned the engines.
    """
    # A supervisor's backoff protects a machine from processes that crash at start; here they are killed all the time.
    max_backoff_seconds = engines.MAX_SECONDS
    engines.MAX_SECONDS = engines.FIRST_SECONDS  # type: ignore[misc]
    installation = _build(home, sandbox_url, settings, breakages or {}, postgres)
    installation.armed_together = armed_together
    installation.process_pool.warm_up()
    try:
        await _start_engines(installation, released_tree)
        for kind in CONSUMER_SERVICES:
            for number in range(1, (replicas or {}).get(kind, 1) + 1):
                name = kind if number == 1 else f"{kind}-{number}"
                installation.start_replica(name, released_tree)
        supervision = asyncio.create_task(installation.supervise())
        try:
            yield installation
        finally:
            # Else it would restart the processes that are stopped below. Its own error fails the test.
            supervision.cancel()
            with suppress(asyncio.CancelledError):
                await supervision
    finally:
        engines.MAX_SECONDS = max_backoff_seconds  # type: ignore[misc]
        installation.process_pool.stop([], grace_seconds=0.0)
        installation.nats.stop()
        installation.postgres.stop()


def _build(
    home: Path,
    sandbox_url: str,
    settings: Mapping[str, str],
    breakages: Mapping[str, str],
    postgres: EmbeddedPostgres | PostgresContainer | None,
) -> Installation:
    nats = EmbeddedNats(home / "nats", free_port(), home / "nats.log")
    if postgres is None:
        postgres = EmbeddedPostgres(home / "postgres", home / "postgres.log")
    environment = {
        "VIGIL_DATABASE_URL": postgres.url(DATABASE),
        "VIGIL_NATS_URL": nats.url,
        "VIGIL_SANDBOX_URL": sandbox_url,
        "VIGIL_PRICES_FILE": str(SANDBOX_PRICES),
        **settings,
    }
    return Installation(
        home,
        sandbox_url,
        nats,
        postgres,
        ProcessPool(home / "logs", PRELOAD),
        environment,
        breakages,
    )


async def _start_engines(installation: Installation, released_tree: Path | None) -> None:
    installation.nats.launch()
    installation.postgres.launch()
    installation.nats.wait_until_ready()
    installation.postgres.wait_until_ready()
    with psycopg.connect(installation.postgres.url("postgres"), autocommit=True) as connection:
        exists = "select from pg_database where datname = %s"  # in a restored installation
        if connection.execute(exists, (DATABASE,)).fetchone() is None:
            connection.execute(f"create database {DATABASE}")
    if released_tree is None:
        await provision(installation.settings)
    else:
        await asyncio.to_thread(released.migrate, released_tree, installation.environment)


def create_database(installation: Installation) -> Database:
    return Database(installation.settings.database_url, name="test")
