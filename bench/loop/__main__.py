"""`python -m bench.loop`: the cost of an iteration, compared with the same calls and rows by hand (the floor).

The shipped services run in a process each, on NATS and PostgreSQL with shipped settings; the model and the search answer at
once. The floor is measured in the same run. Exit code 1 if a goal is missed.
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

from bench.loop import report
from bench.loop.environment import DATABASE, Environment
from bench.loop.run import count_only, measure
from bench.support import provision, running_engines
from shared.runtime.settings import Settings


def main() -> int:
    arguments = _parse_arguments()
    previous = _previous_goals(arguments)
    with (
        tempfile.TemporaryDirectory() as home,
        running_engines(Path(home), durable=True) as (postgres, nats),
    ):
        settings = Settings(database_url=postgres.url(DATABASE), nats_url=nats.url)
        provision(settings)
        place = Environment(settings, Path(home), postgres, nats)
        if arguments.counts:
            print("\n".join(report.count_lines(asyncio.run(count_only(place)))))
            return 0
        figures = asyncio.run(
            measure(place, iterations=arguments.iterations, load_seconds=arguments.seconds)
        )
    page = report.render_page(figures, previous)
    print(page)
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        actual = {goal.name: goal.measured for goal in report.evaluate_goals(figures)}
        result = {**_conditions(arguments), "goals": actual, **asdict(figures)}
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    if arguments.document is not None:
        arguments.document.write_text(page)
    for line in figures.complaints[:10]:
        print(line, file=sys.stderr)
    return int(any(not goal.is_met for goal in report.evaluate_goals(figures)))


def _previous_goals(arguments: argparse.Namespace) -> Mapping[str, str]:
    """The results of the previous run by goal; empty if there is none, or under other conditions."""
    if arguments.json is None or not arguments.json.exists():
        return {}
    previous = json.loads(arguments.json.read_text())
    conditions = _conditions(arguments)
    conditions["machine"]["measured"] = previous["machine"]["measured"]
    is_comparable = conditions == {name: previous.get(name) for name in conditions}
    return previous.get("goals", {}) if is_comparable else {}


def _conditions(arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    settings = {"iterations": arguments.iterations, "seconds": arguments.seconds}
    return {"machine": report.machine(), "settings": settings}


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.loop", description=__doc__)
    parser.add_argument(
        "--iterations",
        type=int,
        default=100,
        help="number of iterations one after another (default: 100)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=20.0,
        help="duration of the load of 32 agents (default: 20)",
    )
    parser.add_argument(
        "--counts",
        action="store_true",
        help="only count round trips, statements and WAL by table; ends with 0",
    )
    parser.add_argument(
        "--json", type=Path, help="write the figures to this file; its previous ones are compared"
    )
    parser.add_argument("--document", type=Path, help="write the page to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
