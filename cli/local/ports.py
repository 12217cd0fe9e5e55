"""Free ports on 127.0.0.1, and readiness checks."""

import json
import socket
from collections.abc import Collection
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPException
from typing import Final

from cli.local.errors import PortTakenError

LOOPBACK: Final = "127.0.0.1"


def free_port() -> int:
    """A port that is free at this moment."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """`count` different free ports; all are bound until the last one is known."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(_bind(0)) for _ in range(count)]
        return [int(listener.getsockname()[1]) for listener in sockets]


def choose_port(preferred: int, avoid: Collection[int] = ()) -> int:
    """`preferred` if it is free and not in `avoid`, otherwise any other free port."""
    if preferred not in avoid and is_free(preferred):
        return preferred
    # Of len(avoid) + 1 different ports at least one is not in `avoid`.
    return next(port for port in free_ports(len(avoid) + 1) if port not in avoid)


def is_free(port: int) -> bool:
    """Whether the port can be bound at this moment."""
    try:
        _bind(port).close()
    except (OSError, OverflowError):
        return False
    return True


def require_free(port: int, option: str) -> None:
    """Raises PortTakenError, which names the process that listens on the port, if this user may know it."""
    if not is_free(port):
        raise PortTakenError(port, option, _listener(port))


def _listener(port: int) -> str | None:
    """Name and id of the process that listens on the port; None if it is not known."""
    import psutil

    try:
        for connection in psutil.net_connections("tcp"):
            is_listening = connection.status == psutil.CONN_LISTEN and connection.pid is not None
            if is_listening and getattr(connection.laddr, "port", None) == port:
                return f"{psutil.Process(connection.pid).name()} (process {connection.pid})"
    except (psutil.Error, OSError):
        pass
    return None


def _bind(port: int) -> socket.socket:
    """A socket bound to the port. Uses SO_REUSEADDR as servers do, so that closed connections do not count."""
    bound = socket.socket()
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((LOOPBACK, port))
    except BaseException:
        bound.close()
        raise
    return bound


ANSWER_SECONDS: Final = 2.0
NOT_LISTENING: Final = "it is not listening yet"


def unreadiness(port: int, path: str = "/health/ready") -> str | None:
    """Why the process on that port is not ready, in words; None if it is ready."""
    connection = HTTPConnection(LOOPBACK, port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        if answer.status == 200:
            return None
        return _reason(answer.read()) or f"it answers {answer.status}"
    except (ConnectionRefusedError, ConnectionResetError):
        return NOT_LISTENING
    except (OSError, HTTPException) as error:
        return f"it does not answer: {error}"
    finally:
        connection.close()


def _reason(body: bytes) -> str | None:
    try:
        status = json.loads(body)
    except ValueError:
        return None
    return status.get("reason") or status.get("status") if isinstance(status, dict) else None
