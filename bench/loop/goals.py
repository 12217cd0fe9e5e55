"""What the loop may cost."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bench.loop.measuring import Figures

MOST_TIMES_THE_FLOOR: Final = 2.5
LEAST_OF_THE_FLOOR: Final = 0.5
FAST_FLOOR: Final = 80.0
LEAST_BESIDE_A_FAST_FLOOR: Final = 40.0
MOST_SECONDS: Final = 0.045
MOST_COMMITS: Final = 36.0
MOST_WAL_BYTES: Final = 80_000.0
LEAST_EFFICIENCY: Final = {1: 0.95, 20: 0.90}
"""By how many agents there are."""
MOST_REST_BYTES: Final = 90 * 1024**2
MOST_HOP_SECONDS: Final = 0.003


@dataclass(frozen=True)
class Goal:
    what: str
    told: str
    wanted: str
    is_met: bool


def goals(figures: Figures) -> Iterator[Goal]:
    loop, floor = figures.loop, figures.floor
    times = loop.idle_p50 / floor.idle_p50
    yield Goal(
        "one iteration, nothing else going on (p50)",
        f"{times:.1f} times the floor's",
        f"at most {MOST_TIMES_THE_FLOOR:g}",
        times <= MOST_TIMES_THE_FLOOR,
    )
    share = loop.per_second / floor.per_second
    is_quick = floor.per_second < FAST_FLOOR or loop.per_second >= LEAST_BESIDE_A_FAST_FLOOR
    yield Goal(
        "iterations a second, 32 agents",
        f"{loop.per_second:.1f}, {share:.2f} of the floor's",
        f"at least {LEAST_OF_THE_FLOOR:g} of it, and {LEAST_BESIDE_A_FAST_FLOOR:g} where the floor makes {FAST_FLOOR:g}",
        share >= LEAST_OF_THE_FLOOR and is_quick,
    )
    yield Goal(
        "processor time of an iteration, all processes, 32 agents",
        f"{loop.load.all_seconds * 1000:.0f} ms",
        f"at most {MOST_SECONDS * 1000:g} ms",
        loop.load.all_seconds <= MOST_SECONDS,
    )
    yield Goal(
        "commits of an iteration",
        f"{loop.idle.commits:.1f}",
        f"at most {MOST_COMMITS:g}",
        loop.idle.commits <= MOST_COMMITS,
    )
    yield Goal(
        "WAL of an iteration",
        f"{loop.idle.wal_bytes / 1000:.0f} kB",
        f"at most {MOST_WAL_BYTES / 1000:g} kB",
        loop.idle.wal_bytes <= MOST_WAL_BYTES,
    )
    yield from _others(figures)


def _others(figures: Figures) -> Iterator[Goal]:
    for each in figures.makespans:
        least = LEAST_EFFICIENCY[each.agents]
        yield Goal(
            f"efficiency, {each.agents} agents, {each.researchers} researchers",
            f"{each.efficiency:.1%}",
            f"at least {least:.0%}",
            each.efficiency >= least,
        )
    heaviest = max(figures.rest_bytes, key=lambda name: figures.rest_bytes[name])
    held = figures.rest_bytes[heaviest]
    yield Goal(
        "memory of an actor at rest",
        f"{held / 1024**2:.0f} MiB (the {heaviest})",
        f"at most {MOST_REST_BYTES / 1024**2:g} MiB",
        held <= MOST_REST_BYTES,
    )
    yield Goal(
        "from one actor's commit to the next one's start (p50)",
        f"{figures.hop_p50 * 1000:.1f} ms",
        f"at most {MOST_HOP_SECONDS * 1000:g} ms",
        figures.hop_p50 <= MOST_HOP_SECONDS,
    )
