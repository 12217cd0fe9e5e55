"""`python -m shared.runtime.health_probe`: whether the process that listens at VIGIL_PORT is ready. For health checks."""

import os
import socket
import sys
from typing import Final

PATH: Final = "/health/ready"
PATIENCE_SECONDS: Final = 4.0
"""A little more than a process takes at the most to say that it is not ready."""


def fault(port: int, path: str = PATH) -> str | None:
    """Why it is not ready, in words, or None. Over a bare socket: an HTTP client takes longer to import than to ask."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection:
            connection.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            answer = connection.makefile("r", errors="replace", newline="\r\n").read()
    except OSError as error:
        return f"nothing answers at port {port}: {error!r}"
    status, _, rest = answer.partition("\r\n")
    return None if status.split()[1:2] == ["200"] else rest.rpartition("\r\n")[2] or "no answer"


def main() -> int:
    """0 where it is ready, 1 where it is not; a path other than /health/ready may be given."""
    found = fault(int(os.environ["VIGIL_PORT"]), *sys.argv[1:2])
    if found is not None:
        print(found)
    return int(found is not None)


if __name__ == "__main__":
    raise SystemExit(main())
