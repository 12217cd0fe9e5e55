"""Try to access an installation as another local user: started as root, this process becomes `nobody`.

It reads its targets as JSON from standard input and writes its findings as JSON to standard output, unjudged.
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
    targets = json.load(sys.stdin)
    # `nobody` may not be able to read what libraries load later.
    _postgres(LOOPBACK, 1, "warm up", "")
    list(_http(1))
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    report = {
        "uid": os.getuid(),
        "readable": [path for path in targets["paths"] if _reads(path)],
        "sockets": [path for path in targets["sockets"] if _connects(path)],
        "postgres": list(
            _all_postgres(targets["socket_directory"], targets["ports"], targets["roles"])
        ),
        "nats": {port: list(_nats(port, targets["users"])) for port in targets["ports"]},
        "http": {port: list(_http(port)) for port in targets["ports"]},
    }
    json.dump(report, sys.stdout)


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
            # An abstract socket, which has no permissions, is listed with a leading @.
            client.connect("\0" + path[1:] if path.startswith("@") else path)
        except OSError:
            return False
        return True


def _all_postgres(directory: str, ports: Sequence[int], roles: Iterable[str]) -> Iterator[str]:
    """The roles that could log in, each with its address."""
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
    """The answer to each login; nothing if the port is not NATS."""
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
        options = {"verbose": False, "pedantic": False, **login}
        lines.write(b"CONNECT " + json.dumps(options).encode() + b"\r\nPING\r\n")
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
