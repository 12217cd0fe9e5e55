"""`python -m shared.runtime.health_probe`: checks whether the process at VIGIL_PORT is ready. For container health
checks.
"""

import os
import socket
import sys
from typing import Final

PATH: Final = "/health/ready"
TIMEOUT_SECONDS: Final = 4.0
"""A little longer than a process may take to report that it is not ready."""


def fault(port: int, path: str = PATH) -> str | None:
    """Why the process is not ready, or None. Uses a plain socket: an HTTP client takes longer to import than to ask."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS) as connection:
            connection.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            response = connection.makefile("r", errors="replace", newline="\r\n").read()
    except OSError as error:
        return f"nothing answers at port {port}: {error!r}"
    status, _, headers_and_body = response.partition("\r\n")
    return (
        None
        if status.split()[1:2] == ["200"]
        else headers_and_body.rpartition("\r\n")[2] or "no answer"
    )


def main() -> int:
    """Exit status 0 if ready, 1 if not. Takes another path than /health/ready as its argument."""
    reason = fault(int(os.environ["VIGIL_PORT"]), *sys.argv[1:2])
    if reason is not None:
        print(reason)
    return int(reason is not None)


if __name__ == "__main__":
    raise SystemExit(main())
