"""Ports on 127.0.0.1. A port that is taken never hinders: another one is chosen."""

import socket
from collections.abc import Collection
from contextlib import ExitStack
from typing import Final

LOOPBACK: Final = "127.0.0.1"


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """That many different free ports: all are held until the last one is known."""
    with ExitStack() as held:
        sockets = [held.enter_context(_bound(0)) for _ in range(count)]
        return [int(each.getsockname()[1]) for each in sockets]


def choose_port(preferred: int, avoid: Collection[int] = ()) -> int:
    """`preferred` where it is free and not to be avoided, else any other free port."""
    if preferred not in avoid and _is_free(preferred):
        return preferred
    # Among len(avoid) + 1 different ports one at least is none of those to be avoided.
    return next(port for port in free_ports(len(avoid) + 1) if port not in avoid)


def _is_free(port: int) -> bool:
    try:
        _bound(port).close()
    except (OSError, OverflowError):
        return False
    return True


def _bound(port: int) -> socket.socket:
    """A socket bound to the port. SO_REUSEADDR, as servers set it: old connections do not count."""
    bound = socket.socket()
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((LOOPBACK, port))
    except BaseException:
        bound.close()
        raise
    return bound
