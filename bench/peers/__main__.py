"""`python -m bench.peers`: the reference iteration in Vigil, LangGraph, DBOS and by hand, in one run.

All make the same calls of a model and a search over HTTP, and use one PostgreSQL with the durability of a release.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.loop.environment import DATABASE, Environment
from bench.loop.run import providers
from bench.peers.contenders import Peer, Vigil
from bench.peers.kills import KILLS, kill_peer, kill_vigil
from bench.peers.measuring import AGENTS_UNDER_LOAD, measure
from bench.peers.report import Kills, render_page
from bench.support import provision, running_engines
from shared.runtime.settings import Settings


def main() -> int:
    arguments = _parse_arguments()
    with (
        tempfile.TemporaryDirectory() as home,
        running_engines(Path(home), durable=True) as (postgres, nats),
        providers() as url,
    ):
        settings = Settings(database_url=postgres.url(DATABASE), nats_url=nats.url)
        provision(settings)
        place = Environment(settings, Path(home), postgres, nats)
        peers = _peers(place, url, arguments.python)
        kills = asyncio.run(_kill(place, peers))
        rounds = asyncio.run(
            measure(
                place,
                [Vigil(place, url, AGENTS_UNDER_LOAD), *peers],
                rounds=arguments.rounds,
                iterations=arguments.iterations,
                load_seconds=arguments.seconds,
            )
        )
    page = render_page(rounds, kills, arguments.python)
    print(page)
    if arguments.document is not None:
        arguments.document.write_text(page)
    return 0


def _peers(place: Environment, url: str, python: Path) -> list[Peer]:
    return [
        Peer("by hand", place, url, python, "by_hand"),
        Peer("LangGraph", place, url, python, "with_langgraph"),
        Peer("LangGraph, libraries", place, url, python, "with_langgraph", ("--libraries",)),
        Peer("DBOS", place, url, python, "with_dbos"),
        Peer("DBOS, libraries", place, url, python, "with_dbos", ("--libraries",)),
    ]


async def _kill(place: Environment, peers: Sequence[Peer]) -> Kills:
    """Kill Vigil, and each peer without libraries."""
    print("kills", file=sys.stderr, flush=True)
    kills = {"Vigil": [await kill_vigil(place, after, place.home) for after in KILLS]}
    for peer in peers:
        if not peer.options:
            kills[peer.name] = [await kill_peer(peer, after, place.home) for after in KILLS]
    return kills


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument(
        "--python", type=Path, required=True, help="the interpreter of the peers' environment"
    )
    parser.add_argument("--rounds", type=int, default=5, help="default: 5")
    parser.add_argument(
        "--iterations", type=int, default=30, help="of one agent, in each round (default: 30)"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=10.0,
        help=f"duration of the load of {AGENTS_UNDER_LOAD} agents, in each round (default: 10)",
    )
    parser.add_argument("--document", type=Path, help="write the page to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
