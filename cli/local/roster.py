"""The TCP ports of a local installation; PostgreSQL has none, only a Unix socket."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from cli.local.household import ACTORS, API, SANDBOX
from cli.local.ports import choose_port

NATS: Final = "nats"

KNOWN: Final[Mapping[str, int]] = {API: 8080, NATS: 4222}
"""The ports that people use."""

# Below the range that the kernel hands out to outgoing connections, so that none of those takes one in between.
UP_PORTS: Final = range(12_000, 20_000)
DEMO_PORTS: Final = range(20_000, 32_000)

_OTHERS: Final = (SANDBOX, *ACTORS)


def usual_ports(api_port: int) -> dict[str, int]:
    """The ports that people know, or any free ones where those are taken; the others elsewhere for each process.

    Two installations that start at the same time would else find the same ports free, and one would take the other's
    services for its own.
    """
    known = {**KNOWN, API: api_port}
    return _chosen([*known.items(), *_of_this_process(_OTHERS, UP_PORTS)])


def demo_ports() -> dict[str, int]:
    """Away from the usual ones, and elsewhere for each process, so that demos begun at the same time do not meet."""
    return _chosen(_of_this_process((*KNOWN, *_OTHERS), DEMO_PORTS))


def taken(ports: Mapping[str, int], api_port: int) -> list[int]:
    """The known ports that others hold, so that the installation listens elsewhere."""
    known = {**KNOWN, API: api_port}
    return [port for name, port in known.items() if ports[name] != port]


def _of_this_process(names: Sequence[str], ports: range) -> list[tuple[str, int]]:
    first = ports.start + os.getpid() * 2 * len(names) % (len(ports) - len(names))
    return [(name, first + place) for place, name in enumerate(names)]


def _chosen(preferred: Iterable[tuple[str, int]]) -> dict[str, int]:
    chosen: dict[str, int] = {}
    for name, port in preferred:
        chosen[name] = choose_port(port, avoid=chosen.values())
    return chosen
