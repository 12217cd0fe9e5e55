"""NATS's configuration of users, nodes and TLS, as its `include` takes it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import quote

from cli.certificates import NATS
from shared.events.permissions import PERMISSIONS

CLUSTER: Final = "vigil"
ROUTES_USER: Final = "routes"
ROUTES_PORT: Final = 6222
TLS_TIMEOUT_SECONDS: Final = 10
SEEN_BY_NATS: Final = PurePosixPath("/etc/nats/keys")
"""Where NATS finds the folder in which this configuration stands; its paths of certificates start nowhere else."""

_HEAD: Final = "# Written by `vigil keys` from Vigil's own table of permissions; changes are lost at its next run.\n"


def render(
    passwords: Mapping[str, str],
    routes: Sequence[str] = (),
    routes_password: str | None = None,
    *,
    tls: bool = False,
) -> str:
    """`passwords` by user. `routes` are the nodes of a cluster (host:port), each node's own too.

    With `tls` clients have to speak it from the first byte; nodes go on in plain text among themselves.
    """
    users = [
        {"user": user, "password": passwords[user], "permissions": permissions.as_nats()}
        for user, permissions in PERMISSIONS.items()
    ]
    parts: dict[str, Any] = {"authorization": {"users": users}}
    if routes:
        parts["cluster"] = _cluster(routes, routes_password or "")
    if tls:
        certificate, key = (str(SEEN_BY_NATS / name) for name in NATS)
        parts["tls"] = {
            "cert_file": certificate,
            "key_file": key,
            # Not "auto": to a client that is slow to begin, NATS would greet in plain text after all.
            "handshake_first": True,
            "timeout": TLS_TIMEOUT_SECONDS,
        }
    lines = [f"{key}: {json.dumps(part, indent=2)}\n" for key, part in parts.items()]
    return _HEAD + "".join(lines)


def _cluster(routes: Sequence[str], password: str) -> dict[str, Any]:
    login = f"{ROUTES_USER}:{quote(password, safe='')}"
    return {
        "name": CLUSTER,
        "listen": f"0.0.0.0:{ROUTES_PORT}",
        "authorization": {"user": ROUTES_USER, "password": password},
        "routes": [f"nats-route://{login}@{route}" for route in routes],
    }
