"""`python -m shared.runtime.probe`: whether the process that listens at VIGIL_PORT here is ready. For health checks."""

import os
import sys
from http.client import HTTPConnection, HTTPException
from typing import Final

PATH: Final = "/health/ready"
PATIENCE_SECONDS: Final = 4.0
"""A little more than a process takes at the most to say that it is not ready."""


def fault(port: int, path: str = PATH) -> str | None:
    """Why it is not ready, in words, or None."""
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return None if answer.status == 200 else answer.read().decode(errors="replace")
    except (OSError, HTTPException) as error:
        return f"nothing answers at port {port}: {error!r}"
    finally:
        connection.close()


def main() -> int:
    """0 where it is ready, 1 where it is not; a path other than /health/ready may be given."""
    found = fault(int(os.environ["VIGIL_PORT"]), *sys.argv[1:2])
    if found is not None:
        print(found)
    return int(found is not None)


if __name__ == "__main__":
    raise SystemExit(main())
