"""The api behind a real socket, in a thread of the test's own process."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from cli.local.ports import free_port
from services.api.app import build
from shared.runtime.settings import Settings

START_SECONDS = 30.0


@contextmanager
def served(settings: Settings) -> Iterator[str]:
    """Its URL."""
    port = free_port()
    config = uvicorn.Config(
        build(settings), port=port, log_config=None, access_log=False, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="api")
    thread.start()
    deadline = time.monotonic() + START_SECONDS
    try:
        while not server.started:
            assert thread.is_alive(), "the api did not start"
            assert time.monotonic() < deadline, "the api did not start in time"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
