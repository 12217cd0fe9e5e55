"""Where everybody of a local installation listens."""

import os
from collections.abc import Iterable, Mapping
from typing import Final

from cli.local.household import ACTORS, API, SANDBOX
from cli.local.ports import choose_port

POSTGRES: Final = "postgres"
NATS: Final = "nats"
NATS_MONITOR: Final = "nats_monitor"

# Below the range that the kernel hands out to outgoing connections, so that none of those takes one in between.
USUAL: Final[Mapping[str, int]] = {
    API: 8080,
    NATS: 4222,
    NATS_MONITOR: 8222,
    POSTGRES: 5432,
    SANDBOX: 18080,
    **{actor: 18081 + place for place, actor in enumerate(ACTORS)},
}

DEMO_PORTS: Final = range(20_000, 32_000)


def usual_ports(api_port: int) -> dict[str, int]:
    """The ports that people know, or any free ones where those are taken."""
    return _chosen({**USUAL, API: api_port}.items())


def demo_ports() -> dict[str, int]:
    """Away from the usual ones, and elsewhere for each process, so that demos begun at the same time do not meet."""
    first = DEMO_PORTS.start + os.getpid() * 2 * len(USUAL) % len(DEMO_PORTS)
    return _chosen((name, first + place) for place, name in enumerate(USUAL))


def taken(ports: Mapping[str, int], api_port: int) -> list[int]:
    """The known ports that others hold, so that the installation listens elsewhere."""
    known = {**USUAL, API: api_port}
    people_use = (API, NATS, POSTGRES)
    return [known[name] for name in people_use if ports[name] != known[name]]


def _chosen(preferred: Iterable[tuple[str, int]]) -> dict[str, int]:
    chosen: dict[str, int] = {}
    for name, port in preferred:
        chosen[name] = choose_port(port, avoid=chosen.values())
    return chosen
