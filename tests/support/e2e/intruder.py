"""Another local user who tries to get into an installation: started as root, it becomes `nobody` and then tries.

What it is to try comes as JSON on standard input; what came of it goes as JSON to standard output. It judges nothing.
"""

import http.client
import json
import os
import socket
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import psycopg

NOBODY: Final = 65534
LOOPBACK: Final = "127.0.0.1"
ANSWER_SECONDS: Final = 5
WRONG: Final = "wrong"
HOSTS: Final = (LOOPBACK, "localhost", "evil.example")
PATHS: Final = ("/", "/varz", "/connz", "/jsz", "/api/v1/agents", "/v1/models")


def main() -> None:
    asked = json.load(sys.stdin)
    # What libraries load late may be closed to nobody.
    _postgres(LOOPBACK, 1, "warm up", "")
    list(_http(1))
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    told = {
        "uid": os.getuid(),
        "readable": [path for path in asked["paths"] if _reads(path)],
        "sockets": [path for path in asked["sockets"] if _connects(path)],
        "postgres": list(_all_postgres(asked["socket_directory"], asked["ports"], asked["roles"])),
        "nats": {port: list(_nats(port, asked["users"])) for port in asked["ports"]},
        "http": {port: list(_http(port)) for port in asked["ports"]},
    }
    json.dump(told, sys.stdout)


def _reads(path: str) -> bool:
    try:
        os.listdir(path) if os.path.isdir(path) else open(path, "rb").close()
    except OSError:
        return False
    return True


def _connects(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(ANSWER_SECONDS)
        try:
            # An abstract one, which has no mode to keep anybody out, is shown with an @ in front.
            client.connect("\0" + path[1:] if path.startswith("@") else path)
        except OSError:
            return False
        return True


def _all_postgres(directory: str, ports: Sequence[int], roles: Iterable[str]) -> Iterator[str]:
    """Whoever was let in, and where."""
    for role in roles:
        for password in ("", WRONG):
            if _postgres(directory, 5432, role, password):
                yield f"{role} at {directory}"
    for port in (*ports, 5432):
        if _postgres(LOOPBACK, port, "postgres", ""):
            yield f"postgres at {port}"


def _postgres(host: str, port: int, role: str, password: str) -> bool:
    try:
        psycopg.connect(
            host=host, port=port, user=role, password=password, dbname="vigil", connect_timeout=2
        ).close()
    except psycopg.Error:
        return False
    return True


def _nats(port: int, users: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The answer to each login; nothing where no NATS greets."""
    logins: list[dict[str, Any]] = [{}, {"user": "", "pass": ""}]
    logins += [{"user": user, "pass": password} for user in users for password in ("", WRONG)]
    for login in logins:
        answer = _nats_login(port, login)
        if answer is None:
            return
        yield json.dumps(login), answer


def _nats_login(port: int, login: dict[str, Any]) -> str | None:
    with socket.create_connection((LOOPBACK, port), timeout=ANSWER_SECONDS) as client:
        client.settimeout(0.5)  # NATS speaks first and at once
        lines = client.makefile("rwb", buffering=0)
        try:
            if not lines.readline().startswith(b"INFO "):
                return None
        except TimeoutError:
            return None
        client.settimeout(ANSWER_SECONDS)
        shown = {"verbose": False, "pedantic": False, **login}
        lines.write(b"CONNECT " + json.dumps(shown).encode() + b"\r\nPING\r\n")
        return bytes(lines.readline()).decode().strip()


def _http(port: int) -> Iterator[tuple[str, str, int]]:
    """Path, Host and status of every request that was answered in HTTP."""
    for path in PATHS:
        for host in HOSTS:
            connection = http.client.HTTPConnection(LOOPBACK, port, timeout=ANSWER_SECONDS)
            try:
                connection.request("GET", path, headers={"Host": host})
                yield path, host, connection.getresponse().status
            except (OSError, http.client.HTTPException):
                continue
            finally:
                connection.close()


if __name__ == "__main__":
    main()
