"""The API on a real socket, in a thread of the test process."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import uvicorn

from cli.local.ports import free_port
from services.api.app import build
from shared.runtime.settings import Settings

START_SECONDS = 30.0
POLL_SECONDS = 0.02


@contextmanager
def serve_api(settings: Settings) -> Iterator[str]:
    """Serves the API and yields its URL once it is ready."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    config = uvicorn.Config(
        build(settings), port=port, log_config=None, access_log=False, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="api")
    thread.start()
    deadline = time.monotonic() + START_SECONDS
    try:
        while not (server.started and httpx.get(f"{url}/health/ready", verify=False).is_success):
            assert thread.is_alive(), "the api did not start"
            assert time.monotonic() < deadline, "the api was not ready in time"
            time.sleep(POLL_SECONDS)
        yield url
    finally:
        server.should_exit = True
        thread.join()
