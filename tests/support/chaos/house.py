"""A whole installation of processes that a test may kill: each is started again, as a supervisor would."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psycopg

from cli.local import engines
from cli.local.engines import EngineWatchdog
from cli.local.members import ACTORS, PRELOAD
from cli.local.nats import EmbeddedNats
from cli.local.ports import free_port
from cli.local.postgres import EmbeddedPostgres
from cli.local.process_pool import Died, ProcessPool
from shared.database.engine import Database
from shared.failpoints import DIRECTORY, Failpoint
from shared.runtime.provision import provision
from shared.runtime.settings import Settings
from tests.support.chaos import actor
from tests.support.chaos.contained import ContainedPostgres
from tests.support.sandbox_prices import SANDBOX_PRICES
from tests.support.waiting import until

DATABASE: Final = "vigil"
LOOK_SECONDS: Final = 0.02
HASTY: Final = {
    "VIGIL_LEASE_SECONDS": "1.5",
    "VIGIL_RESEND_AFTER_SECONDS": "1.0",
    "VIGIL_SCHEDULER_TICK_SECONDS": "0.1",
    "VIGIL_DRAIN_SECONDS": "1.0",
}
"""Settings under which a killed worker's step is given to another within seconds."""


@dataclass
class House:
    """Engines and actors, the latter by the name of each replica: `researcher`, `researcher-2`."""

    home: Path
    sandbox_url: str
    nats: EmbeddedNats
    postgres: EmbeddedPostgres | ContainedPostgres
    fleet: ProcessPool
    environment: dict[str, str]
    breakages: Mapping[str, str]
    """What is broken in every replica of an actor, by the actor's name."""
    armed_together: bool = False
    """What is armed for an actor strikes whichever of its replicas comes by first, and that one alone."""
    deaths: list[Died] = field(default_factory=list)
    kept_down: set[str] = field(default_factory=set)
    """Names of the engines and replicas that nobody starts again for now."""

    @property
    def settings(self) -> Settings:
        return Settings(
            database_url=self.postgres.url(DATABASE),
            nats_url=self.nats.url,
            sandbox_url=self.sandbox_url,
        )

    def admit(self, name: str) -> None:
        """Starts one replica; its kind is what stands before the dash of its name."""
        breakage = self.breakages.get(name.partition("-")[0])
        own = {**self.environment, DIRECTORY: str(self._crash_directory(name))}
        self.fleet.spawn(name, actor.run, (name.partition("-")[0], breakage), own)

    def arm(self, name: str, point: Failpoint, *, skip: int = 0, sends: str = "SIGKILL") -> None:
        """The replica sends itself that signal when it is at `point`, after having passed it `skip` times."""
        directory = self._crash_directory(name)
        for number in range(skip):
            (directory / f"{point}.skip{number}").touch()
        (directory / point).write_text(sends)

    def armed(self) -> list[str]:
        """What was armed and has not struck."""
        return sorted(
            str(file.relative_to(self.home))
            for file in self.home.glob("crash/*/*")
            if file.exists()
        )

    def disarm(self) -> None:
        for file in self.home.glob("crash/*/*"):
            file.unlink(missing_ok=True)

    def replicas(self, kind: str) -> set[str]:
        """Names of those of that kind that live."""
        return {name for name in self.fleet.pids() if name.partition("-")[0] == kind}

    def send(self, name: str, sent: signal.Signals) -> None:
        os.kill(self.fleet.pids()[name], sent)

    def log(self, name: str) -> str:
        return (self.home / "logs" / f"{name}.log").read_text(errors="replace")

    def log_lines(self) -> list[str]:
        """Of every actor."""
        return [
            line
            for file in sorted((self.home / "logs").glob("*.log"))
            for line in file.read_text(errors="replace").splitlines()
        ]

    async def restarted(self, name: str, old_pid: int) -> None:
        async def look() -> bool:
            return self.fleet.pids().get(name, old_pid) != old_pid

        await until(look, what=f"the {name} to be started again")

    async def live(self, names: Collection[str]) -> None:
        """Returns when the replicas of these names run, all of them."""

        async def look() -> bool:
            return self.fleet.pids().keys() >= set(names)

        await until(look, what=f"{', '.join(sorted(names))} to run")

    async def look_after(self) -> None:
        """Starts again whoever died, until cancelled."""
        keepers = {engine.name: EngineWatchdog(engine) for engine in (self.nats, self.postgres)}
        while True:
            happened = self.fleet.poll(self.kept_down)
            self.deaths += [each for each in happened if isinstance(each, Died)]
            for name, keeper in keepers.items():
                if name not in self.kept_down:
                    keeper.look_after()
            await asyncio.sleep(LOOK_SECONDS)

    def _crash_directory(self, name: str) -> Path:
        owner = name.partition("-")[0] if self.armed_together else name
        directory = self.home / "crash" / owner
        directory.mkdir(parents=True, exist_ok=True)
        return directory


@asynccontextmanager
async def lived_in(
    home: Path,
    sandbox_url: str,
    *,
    replicas: Mapping[str, int] | None = None,
    breakages: Mapping[str, str] | None = None,
    settings: Mapping[str, str] = HASTY,
    armed_together: bool = False,
    postgres: ContainedPostgres | None = None,
) -> AsyncIterator[House]:
    """Every actor once, unless `replicas` says more; `breakages` says what is broken in an actor.

    `postgres` is in place of the embedded one.
    """
    # A supervisor's growing delay protects a machine from who cannot live; here they are killed all the time.
    patient = engines.LONGEST_SECONDS
    engines.LONGEST_SECONDS = engines.FIRST_SECONDS  # type: ignore[misc]
    house = _built(home, sandbox_url, settings, breakages or {}, postgres)
    house.armed_together = armed_together
    house.fleet.warm_up()
    try:
        await _furnish(house)
        for kind in ACTORS:
            for number in range(1, (replicas or {}).get(kind, 1) + 1):
                name = kind if number == 1 else f"{kind}-{number}"
                house.admit(name)
        looking = asyncio.create_task(house.look_after())
        try:
            yield house
        finally:
            # Or it would start again what is stopped below. What broke it breaks the test.
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking
    finally:
        engines.LONGEST_SECONDS = patient  # type: ignore[misc]
        house.fleet.stop([], grace_seconds=0.0)
        house.nats.stop()
        house.postgres.stop()


def _built(
    home: Path,
    sandbox_url: str,
    settings: Mapping[str, str],
    breakages: Mapping[str, str],
    postgres: EmbeddedPostgres | ContainedPostgres | None,
) -> House:
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
    return House(
        home,
        sandbox_url,
        nats,
        postgres,
        ProcessPool(home / "logs", PRELOAD),
        environment,
        breakages,
    )


async def _furnish(house: House) -> None:
    house.nats.launch()
    house.postgres.launch()
    house.nats.wait_until_ready()
    house.postgres.wait_until_ready()
    with psycopg.connect(house.postgres.url("postgres"), autocommit=True) as connection:
        connection.execute(f"create database {DATABASE}")
    await provision(house.settings)


def database_of(house: House) -> Database:
    return Database(house.settings.database_url, name="test")
