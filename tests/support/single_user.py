"""Which modules of `shared` have a single user: `python -m tests.support.single_user` fails when one belongs elsewhere.

A user is a service or the command line. A module counts as used by whatever imports it, directly or through other modules.
"""

import sys
from collections.abc import Mapping
from typing import Final

import grimp

STAY: Final[Mapping[str, str]] = {
    "shared.database.migrate": "applies the migrations beside it",
    "shared.database.roles": "applies the grants beside it",
    "shared.events.store_probe": "only `shared` may import the NATS client",
    "shared.graph.transfer.file_reader": "reads what the exporter beside it writes",
    "shared.graph.transfer.importer": "reads what the exporter beside it writes",
    "shared.runtime.identity": "names of roles and files that the services' credentials beside it use",
    "shared.runtime.provision": "makes what the connections beside it need",
}
"""Modules with a single user that stay in `shared`, each with the reason."""

NOT_IMPORTED: Final = (
    "shared.database.migrations",
    "shared.runtime.health_probe",
)
"""Run by Alembic, by make and by Docker."""


def single_users(graph: grimp.ImportGraph) -> dict[str, str]:
    """Modules of `shared` that at most one service or the command line uses, each with that user, '' for none."""
    users = {
        module: {
            _user(importer)
            for importer in graph.find_downstream_modules(module)
            if not importer.startswith("shared.") and importer not in ("shared", "services")
        }
        for module in graph.modules
        if module.startswith("shared.") and not graph.find_children(module)
    }
    return {module: "".join(names) for module, names in users.items() if len(names) < 2}


def faults(single: Mapping[str, str]) -> list[str]:
    """What to do about the modules of `single`; nothing of those that stay."""
    lines = [
        f"{module} is used by {user} alone: move it there, or say in STAY why it stays"
        if user
        else f"{module} is used by no service: delete it, or say in NOT_IMPORTED who runs it"
        for module, user in sorted(single.items())
        if module not in STAY and not module.startswith(NOT_IMPORTED)
    ]
    stale = [
        f"{module} has several users or is gone: take it out of STAY"
        for module in STAY
        if module not in single
    ]
    return lines + stale


def _user(module: str) -> str:
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "services" else parts[0]


def main() -> None:
    messages = faults(single_users(grimp.build_graph("services", "shared", "cli", cache_dir=None)))
    for fault in messages:
        print(fault, file=sys.stderr)
    sys.exit(bool(messages))


if __name__ == "__main__":
    main()
