"""A real API process under attack, started with the default action for SIGPIPE, as a forked child can be."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cli.local.ports import free_port, unreadiness
from tests.support.waiting import wait_for
from tests.support.warm_processes import WarmProcess, start_blocking

API: Final = "from services.api.app import serve; serve()"
SANDBOX: Final = "from sandbox.__main__ import main; main()"
_DEFAULT_SIGPIPE: Final = "import signal; signal.signal(signal.SIGPIPE, signal.SIG_DFL); "


class AttackedProcess:
    def __init__(self, process: WarmProcess, port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        """Connect from this loopback address."""
        return socket.create_connection(
            ("127.0.0.1", self.port), timeout=10, source_address=(source, 0)
        )

    def send(self, request: bytes, source: str = "127.0.0.1") -> bytes:
        """Send the bytes and return everything received until the connection is closed."""
        with self.connect(source) as connection:
            connection.sendall(request)
            return b"".join(iter(lambda: connection.recv(65536), b""))


@contextmanager
def attacked_process(
    log: Path,
    *arguments: str,
    program: str = API,
    ready: str = "/health/ready",
    port: int | None = None,
    files: tuple[int, int] | None = None,
    **environment: str,
) -> Iterator[AttackedProcess]:
    """`files` is the soft and hard limit of open files; `environment` is added to the port."""
    port = port or free_port()
    base_environment = {
        name: value for name, value in os.environ.items() if not name.startswith("VIGIL_")
    }
    with (
        log.open("wb") as file,
        open(os.devnull, "rb") as nothing,
    ):
        process = start_blocking(
            ["-c", _DEFAULT_SIGPIPE + program, *arguments],
            {**base_environment, "VIGIL_PORT": str(port), **environment},
            fds=(nothing.fileno(), file.fileno(), file.fileno()),
            open_files=files,
        )
        try:

            def is_ready() -> bool | None:
                assert process.poll() is None, log.read_text(errors="replace")
                return True if unreadiness(port, ready) is None else None

            wait_for(is_ready, f"the process at port {port} to be ready")
            yield AttackedProcess(process, port, log)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait_blocking()
