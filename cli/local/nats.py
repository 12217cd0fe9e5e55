"""NATS from a wheel, on 127.0.0.1, with JetStream in files."""

import json
import os
import signal
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

import psutil

from cli.local.engines import Engine, nats_server
from cli.local.errors import EngineError
from cli.local.ports import LOOPBACK, free_port, is_free
from cli.local.processes import find_orphans, stop_orphans

SYNC_INTERVAL: Final = "2s"
MAX_FILE_STORE_BYTES: Final = 8 * 1024**3
"""For all streams together; the stream's own limit is smaller."""

MAX_MEMORY_STORE_BYTES: Final = 64 * 1024**2
"""Vigil has no stream in memory; the default is three quarters of the machine's memory."""

_ANSWER_SECONDS: Final = 1.0


class EmbeddedNats(Engine):
    """A server that keeps its streams in `data`, without users and passwords unless `include` configures them.

    It has no monitoring port, which has no password and would show connections and subjects to every local user.

    The caller must hold the data directory's lock: a server that already serves `data`
    counts as an orphan of a killed run, and is stopped first. Nothing else prevents two servers
    on one store.
    """

    name = "NATS"
    stop_signals = ((signal.SIGTERM, 20.0),)
    # Go's runtime sets timers of microseconds after each of the server's timers, of which there are ten a second.
    timer_slack_ns = 1_000_000

    def __init__(
        self,
        data: Path,
        port: int,
        log: Path,
        *,
        durable: bool = True,
        also: Mapping[str, Any] | None = None,
        include: Path | None = None,
    ) -> None:
        """`also` is added to the configuration as it is; the file `include` is included."""
        super().__init__(log)
        self.data = data.resolve()
        self.port = port
        self.durable = durable
        self._also = dict(also or {})
        self._include = include
        self._server_name = f"vigil-{uuid.uuid4()}"

    @property
    def url(self) -> str:
        return f"nats://{LOOPBACK}:{self.port}"

    def wait_or_move(
        self, uninterrupted: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        """Like `wait_until_ready`; if another program took the port before this one, starts once more on a free one.

        Two installations that start at the same time find the same port free. `uninterrupted` defers signals.
        """
        try:
            self.wait_until_ready()
        except EngineError:
            if is_free(self.port):
                raise
            self.port = free_port()
            with uninterrupted():
                self.launch()
            self.wait_until_ready()

    @property
    def config(self) -> Path:
        """Writes the configuration file at each start."""
        return self.data / "nats-server.conf"

    def _prepare(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        stop_orphans(find_orphans("nats-server", self._is_ours), self.stop_signals)
        new_file = self.config.with_suffix(".new")
        new_file.write_text(self._configuration())
        new_file.replace(self.config)

    def _command(self) -> Sequence[str]:
        return [str(nats_server()), "--config", str(self.config)]

    def _environment(self) -> Mapping[str, str]:
        """One thread runs Go code: more of them wake each other for every timer, 70 times a second at rest."""
        return {"GOMAXPROCS": "1", **os.environ}

    def _configuration(self) -> str:
        """The format accepts JSON values; `sync_interval` exists in the file only, not as an option.

        After a power failure, the reconciler publishes the lost events again.
        """
        jetstream: dict[str, Any] = {
            "store_dir": str(self.data),
            "max_file_store": MAX_FILE_STORE_BYTES,
            "max_memory_store": MAX_MEMORY_STORE_BYTES,
        }
        if self.durable:
            jetstream["sync_interval"] = SYNC_INTERVAL
        configuration = {
            "server_name": self._server_name,
            "listen": f"{LOOPBACK}:{self.port}",
            "jetstream": jetstream,
            **self._also,
        }
        lines = [
            f"{key}: {json.dumps(value, indent=2, ensure_ascii=False)}\n"
            for key, value in configuration.items()
        ]
        if self._include is not None:
            # NATS resolves it, even an absolute path, relative to the configuration file.
            lines.append(f"include '{os.path.relpath(self._include, self.data)}'\n")
        return "".join(lines)

    def _is_ready(self) -> bool:
        """Whether the client port's greeting names this server (another might hold that port) with JetStream enabled.

        The server listens for clients only after it has recovered its streams.
        """
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=_ANSWER_SECONDS) as client:
                greeting = json.loads(client.makefile().readline().removeprefix("INFO "))
        except OSError:
            return False  # not listening yet
        except ValueError:
            return False  # not a NATS server
        expected = {"server_name": self._server_name, "jetstream": True}
        return isinstance(greeting, dict) and expected.items() <= greeting.items()

    def _is_ours(self, process: psutil.Process) -> bool:
        """Whether the process uses our configuration file."""
        return os.fspath(self.config) in process.cmdline()
