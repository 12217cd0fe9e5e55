"""The supervisor of a local installation: starts, watches and stops engines and services."""

import asyncio
import multiprocessing
import os
import resource
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cli.client.target import Api
from cli.cluster.keys import Keys
from cli.config.providers import Providers, corpus_cache
from cli.local.data_directory import DataDirectory, Running
from cli.local.engines import Engine, EngineWatchdog, require_local_extra
from cli.local.errors import LocalError
from cli.local.members import (
    API,
    CONSUMER_SERVICES,
    NATS,
    PRELOAD,
    PROCESSES,
    SANDBOX,
    run_api,
    run_provision,
    run_sandbox,
    run_services,
)
from cli.local.nats import EmbeddedNats
from cli.local.ports import LOOPBACK, unreadiness
from cli.local.postgres import EmbeddedPostgres
from cli.local.process_pool import Died, ProcessPool
from cli.local.processes import tail
from cli.local.service_process import ServiceProcess
from cli.local.signals import StopSignals
from cli.local.store_watch import StoreWatch
from shared.events.credentials import Credentials
from shared.events.permissions import OPERATOR, SCHEDULER
from shared.runtime.identity import MIGRATE
from shared.runtime.settings import SANDBOX_KEY

READY_SECONDS: Final = 60.0
DRAIN_SECONDS: Final = 5.0
KILL_AFTER_SECONDS: Final = DRAIN_SECONDS + 5.0
"""How long a service may take to stop: finishing its work and closing connections."""
DATABASE: Final = "vigil"
SANDBOX_KEY_BYTES: Final = 32

_POLL_SECONDS: Final = 0.02
_DEATHS_ENOUGH: Final = 3
"""After this many deaths of a service during the start, the start fails."""


class StackError(LocalError):
    """The installation, or a part of it, failed to start."""


class Stack:
    """The engines and services of one installation. Use it from the main thread, while `data` is locked."""

    def __init__(
        self,
        data: DataDirectory,
        providers: Providers,
        ports: Mapping[str, int],
        corpus_cache: Path,
        uninterrupted: Callable[[], AbstractContextManager[None]] = nullcontext,
        *,
        separate: bool = False,
    ) -> None:
        """`uninterrupted` defers signals, so that no child is started without being recorded.

        With `separate`, each service has a process of its own.
        """
        self._data = data
        self._providers = providers
        self._ports = dict(ports)
        self._corpus_cache = corpus_cache
        self._uninterrupted = uninterrupted
        self._processes = {name: (name,) for name in CONSUMER_SERVICES} if separate else PROCESSES
        """The services of each process."""
        self._pool = ProcessPool(data.logs, PRELOAD)
        self._keys = Keys(data.keys, private=True)
        self._nats = EmbeddedNats(
            data.nats, ports[NATS], data.logs / "nats.log", include=self._keys.nats_users
        )
        self._postgres = EmbeddedPostgres(data.postgres, data.logs / "postgres.log")
        self._sandbox_key = f"{SANDBOX_KEY}-{secrets.token_urlsafe(SANDBOX_KEY_BYTES)}"
        self._store_watch: StoreWatch | None = None
        self._watchdogs: list[EngineWatchdog | StoreWatch] = []
        self._started_at = datetime.now(UTC)
        self._token = data.renew_token()

    @property
    def members(self) -> list[str]:
        """The processes of the installation, without the engines."""
        return [*([SANDBOX] if self._providers.needs_sandbox else []), *self._processes, API]

    @property
    def running(self) -> Running:
        """What other commands read about it."""
        ports = {name: self._ports[name] for name in (*self.members, NATS)}
        return Running(
            pid=multiprocessing.current_process().pid or 0,
            api_url=f"http://{LOOPBACK}:{self._ports[API]}",
            nats_url=self._nats.url,
            database_url=self._postgres.url(DATABASE),
            ports=ports,
            started_at=self._started_at,
            corpus=self._providers.corpus if self._providers.needs_sandbox else None,
        )

    @property
    def api(self) -> Api:
        """Its API, with the owner's token."""
        return Api(self.running.api_url, self._token)

    @property
    def nats(self) -> tuple[str, Credentials]:
        """The URL of its NATS, and the operator's credentials."""
        return self._nats.url, self._nats_credentials(OPERATOR)

    def _nats_credentials(self, user: str) -> Credentials:
        login = self._keys.login_of(user)
        return Credentials(login["nats_user"], login["nats_password"])

    def start(self, say: Callable[[str], None]) -> None:
        """Returns when everything is ready; reports progress to `say`. Raises LocalError."""
        say("starting PostgreSQL and NATS")
        self._pool.warm_up()
        self._keys.make(postgres_password_file=None, routes=[])
        with self._uninterrupted():
            self._nats.launch()
            self._postgres.launch()
        self._nats.wait_or_move(self._uninterrupted)
        self._ports[NATS] = self._nats.port
        self._postgres.wait_until_ready()
        of_nats = EngineWatchdog(self._nats)
        self._store_watch = StoreWatch(
            self._data.nats, self._store_faults, self._probe_store, of_nats
        )
        self._watchdogs += [of_nats, EngineWatchdog(self._postgres), self._store_watch]
        if self._providers.needs_sandbox:
            self._spawn_sandbox()
        say("preparing the tables and the stream")
        self._provision()
        say("starting the services")
        for name, services in self._processes.items():
            logins = {service: self._login(service) for service in services}
            self._spawn(name, run_services, (name, logins))
        self._spawn(API, run_api, ())
        self._wait_until_ready(say)
        self._store_watch.start()

    def look_after(self) -> list[str]:
        """Restarts processes that died; returns what happened, one line each. Does not wait long."""
        with self._uninterrupted():
            return [
                *(line for watchdog in self._watchdogs if (line := watchdog.look_after())),
                *(_describe_change(change) for change in self._pool.poll()),
            ]

    def stop(self) -> list[str]:
        """Stops everything, services first and engines last; returns the names of those that were killed."""
        if self._store_watch is not None:
            self._store_watch.stop()
        killed = self._pool.stop([[*self._processes, API], [SANDBOX]], KILL_AFTER_SECONDS)
        self._nats.stop()
        self._postgres.stop()
        return killed

    def slowest(self) -> list[int]:
        """The processes that `stop` waits for at this moment."""
        engines: tuple[Engine, ...] = (self._nats, self._postgres)
        services = list(self._pool.pids().values())
        return services or [engine.pid for engine in engines if engine.alive()]

    def _spawn_sandbox(self) -> None:
        port, corpus = self._ports[SANDBOX], self._providers.corpus
        registry, cache = str(self._data.corpora_file), str(self._corpus_cache)
        self._spawn(SANDBOX, run_sandbox, (port, corpus, registry, cache, self._sandbox_key))

    def _spawn(self, name: str, target: Callable[..., None], args: tuple[object, ...]) -> None:
        with self._uninterrupted():
            self._pool.spawn(name, target, args, self._environment(name))

    def _provision(self) -> None:
        log = self._data.logs / "provision.log"
        environment = {
            **self._environment(MIGRATE),
            "VIGIL_OWNER_TOKEN": self._token,
            "VIGIL_KEYS_DIR": str(self._data.keys),
        }
        context = multiprocessing.get_context("forkserver")
        refusals, sender = context.Pipe(duplex=False)
        job = ServiceProcess("provision", run_provision, (sender,), environment, log)
        start = log.stat().st_size if log.exists() else 0
        process = context.Process(target=job.run, daemon=True)
        with self._uninterrupted():
            process.start()
        process.join(READY_SECONDS)
        if process.exitcode != 0:
            process.kill()
            if refusals.poll():
                raise StackError(refusals.recv())
            raise StackError(
                f"could not prepare the tables and the stream ({_how(process.exitcode)}); {log} says:\n"
                f"{tail(log, since=start)}"
            )

    def _environment(self, member: str) -> dict[str, str]:
        """Environment variables of `member`, in addition to the supervisor's."""
        return {
            "VIGIL_DATABASE_URL": self._postgres.url(DATABASE),
            "VIGIL_NATS_URL": self._nats.url,
            **({} if member in self._processes else self._login(member)),
            "VIGIL_DATA_DIRECTORY": str(self._data.root),
            "VIGIL_HOST": LOOPBACK,
            "VIGIL_PORT": str(self._ports.get(member, 0)),
            "VIGIL_DRAIN_SECONDS": str(DRAIN_SECONDS),
            **self._providers.also,
            "VIGIL_PUBLIC_URL": os.environ.get("VIGIL_PUBLIC_URL") or self.running.api_url,
            **self._providers.environment(
                f"http://{LOOPBACK}:{self._ports[SANDBOX]}", self._sandbox_key
            ),
        }

    def _login(self, member: str) -> dict[str, str]:
        """Complete, so that no setting of the shell for another installation is used."""
        login = {"database_user": "", "database_password": "", **self._keys.login_of(member)}
        return {f"VIGIL_{name.upper()}": value for name, value in login.items()}

    def _wait_until_ready(self, say: Callable[[str], None]) -> None:
        reasons: dict[str, str | None] = dict.fromkeys(self.members)
        deaths: dict[str, int] = {}
        deadline = time.monotonic() + READY_SECONDS
        while reasons:
            for change in self._pool.poll():
                if isinstance(change, Died):
                    deaths[change.name] = deaths.get(change.name, 0) + 1
                    self._give_up_on(change, deaths[change.name])
            states = {name: self._unreadiness(name) for name in reasons}
            reasons = {name: why for name, why in states.items() if why is not None}
            if reasons and time.monotonic() > deadline:
                raise StackError(self._not_ready(reasons))
            if reasons:
                say(f"waiting for {', '.join(reasons)}")
                time.sleep(_POLL_SECONDS)

    def _store_faults(self) -> list[str]:
        """Why NATS does not store messages, as the services have noticed."""
        faults = (unreadiness(self._ports[name], "/health/store") for name in self._processes)
        return [fault for fault in faults if fault is not None]

    def _probe_store(self) -> str | None:
        # Imported here, because it loads the client of NATS, which is needed only for a fault.
        from shared.events.store_probe import find_store_fault

        url, reader = self.nats
        publisher = self._nats_credentials(SCHEDULER)
        return asyncio.run(find_store_fault(url, reader, publisher, name="supervisor"))

    def _unreadiness(self, name: str) -> str | None:
        return unreadiness(self._ports[name], "/health" if name == SANDBOX else "/health/ready")

    def _give_up_on(self, died: Died, deaths: int) -> None:
        if deaths >= _DEATHS_ENOUGH:
            log = self._data.logs / f"{died.name}.log"
            raise StackError(
                f"the {died.name} failed to start ({_how(died.exit_code)}); {log} says:\n{tail(log)}"
            )

    def _not_ready(self, reason_of: Mapping[str, str | None]) -> str:
        reasons = "\n".join(
            f"  {name}: {why}; see {self._data.logs / f'{name}.log'}"
            for name, why in reason_of.items()
        )
        return f"not ready after {READY_SECONDS:.0f} s:\n{reasons}"


def _describe_change(change: object) -> str:
    if isinstance(change, Died):
        return (
            f"the {change.name} stopped unexpectedly ({_how(change.exit_code)}); restarting it in "
            f"{change.restart_in_seconds:.1f} s"
        )
    return f"the {getattr(change, 'name', change)} is running again"


def _how(exit_code: int | None) -> str:
    """How a process ended, in words."""
    if exit_code is None:
        return f"it did not stop within {READY_SECONDS:.0f} s"
    return f"killed by signal {-exit_code}" if exit_code < 0 else f"exit status {exit_code}"


OPEN_FILES: Final = 65_536
"""The limit of every process, if the machine allows it: each connection is an open file. The usual soft
limit of 1,024 comes from programs that use select()."""
_OPEN_FILES_OF_MACOS: Final = 10_240
"""The limit that macOS allows if it reports the hard limit as infinite."""


@contextmanager
def installation(
    data: DataDirectory,
    providers: Providers,
    choose_ports: Callable[[], Mapping[str, int]],
    say: Callable[[str], None],
    *,
    separate: bool = False,
) -> Iterator[Stack]:
    """Starts the installation, and stops it in order when the block ends. Raises LocalError.

    With `separate`, each service has a process of its own.

    A stop signal raises KeyboardInterrupt in the block; another one while stopping kills the remaining processes.
    """
    require_local_extra()
    raise_open_files()
    with _closed_to_others():
        data.create()
        with data.locked(), StopSignals() as signals:
            data.require_finished_restore()
            stack = Stack(
                data,
                providers,
                choose_ports(),
                corpus_cache(),
                signals.held_back,
                separate=separate,
            )
            try:
                stack.start(say)
                with data.announced(stack.running):
                    yield stack
            finally:
                say(
                    "stopping the services, then NATS and PostgreSQL (press Ctrl-C again to stop immediately)"
                )
                signals.end_with(stack.slowest, say)
                stack.stop()


def raise_open_files() -> None:
    """Raises this process's soft limit of open files, which its children inherit, to the hard one or OPEN_FILES."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for target in (OPEN_FILES, _OPEN_FILES_OF_MACOS):
        limit = target if hard == resource.RLIM_INFINITY else min(target, hard)
        if soft == resource.RLIM_INFINITY or soft >= limit:
            return
        with suppress(ValueError):  # macOS has a lower limit than the hard limit it reports
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            return


@contextmanager
def _closed_to_others() -> Iterator[None]:
    """Within the block, files and sockets that this process and its children create are private to the user."""
    previous_mask = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(previous_mask)
