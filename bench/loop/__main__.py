"""`python -m bench.loop`: what an iteration costs, beside what the same calls and rows cost by hand.

The shipped actors, each in its process, on NATS and PostgreSQL as they are shipped, with a model and a search that answer
at once; and the floor, in the same run. Exit code 1 where a goal is missed.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.engines import engines, provision
from bench.loop import goals, report
from bench.loop.measuring import Place, measure
from shared.runtime.settings import Settings

DATABASE = "vigil"


def main() -> int:
    asked = _asked()
    before = _before(asked)
    with (
        tempfile.TemporaryDirectory() as home,
        engines(Path(home), durable=True) as (postgres, nats),
    ):
        settings = Settings(database_url=postgres.url(DATABASE), nats_url=nats.url)
        provision(settings)
        place = Place(settings, Path(home), DATABASE, postgres, nats)
        figures = asyncio.run(
            measure(place, iterations=asked.iterations, load_seconds=asked.seconds)
        )
    told = report.document(figures, before)
    print(told)
    if asked.json is not None:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        reached = {goal.what: goal.told for goal in goals.goals(figures)}
        whole = {**_circumstances(asked), "goals": reached, **asdict(figures)}
        asked.json.write_text(json.dumps(whole, indent=1) + "\n")
    if asked.document is not None:
        asked.document.write_text(told)
    for line in figures.complaints[:10]:
        print(line, file=sys.stderr)
    return int(any(not goal.is_met for goal in goals.goals(figures)))


def _before(asked: argparse.Namespace) -> Mapping[str, str]:
    """What the run before has measured, by its goals; nothing where there was none, or under other circumstances."""
    if asked.json is None or not asked.json.exists():
        return {}
    whole = json.loads(asked.json.read_text())
    own = _circumstances(asked)
    own["machine"]["measured"] = whole["machine"]["measured"]
    is_alike = own == {name: whole.get(name) for name in own}
    return whole.get("goals", {}) if is_alike else {}


def _circumstances(asked: argparse.Namespace) -> dict[str, dict[str, Any]]:
    settings = {"iterations": asked.iterations, "seconds": asked.seconds}
    return {"machine": report.machine(), "settings": settings}


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.loop", description=__doc__)
    parser.add_argument(
        "--iterations", type=int, default=100, help="one after another (default: 100)"
    )
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="of 32 agents at once (default: 20)"
    )
    parser.add_argument(
        "--json", type=Path, help="where the figures go too; those of the run before stand beside"
    )
    parser.add_argument("--document", type=Path, help="where the page goes too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
