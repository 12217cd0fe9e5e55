"""`python -m bench.soak`: many agents for an hour, with samples of memory, lag, tables and streams.

The shipped services and the API run in a process each, on NATS and PostgreSQL with shipped settings. The scheduler starts
the iterations; the model and the search answer at once. SIGINT and SIGTERM end the run early; the page then covers the
time until then. Exit code 1 if something grows that should not, an iteration failed, or messages wait at the end.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from bench.loop.environment import DATABASE, Environment
from bench.loop.report import machine
from bench.soak import report
from bench.soak.judging import faults
from bench.soak.run import soak
from bench.soak.sampling import Run
from bench.support import provision, running_engines
from shared.runtime.settings import Settings


def main() -> int:
    arguments = _parse_arguments()
    load = os.getloadavg()[0]
    run = Run(
        arguments.agents, arguments.period, arguments.warm_up * 60, arguments.minutes * 60, load
    )
    with (
        tempfile.TemporaryDirectory() as home,
        running_engines(Path(home), durable=True) as (postgres, nats),
    ):
        settings = Settings(database_url=postgres.url(DATABASE), nats_url=nats.url)
        provision(settings)
        place = Environment(settings, Path(home), postgres, nats)
        try:
            asyncio.run(soak(place, run, arguments.sample))
        finally:  # also after an error, the samples are written
            page = report.render_page(run, settings)
            print(page)
            _write(
                arguments.json, json.dumps({"machine": machine(), **asdict(run)}, indent=1) + "\n"
            )
            _write(arguments.document, page)
    fault_lines = faults(run)
    for line in fault_lines:
        print(line, file=sys.stderr)
    return int(bool(fault_lines))


def _write(path: Path | None, text: str) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="total duration (default: 60)")
    parser.add_argument("--agents", type=int, default=50, help="number of agents (default: 50)")
    parser.add_argument(
        "--period", type=int, default=60, help="seconds between an agent's iterations (default: 60)"
    )
    parser.add_argument(
        "--warm-up", type=float, default=5.0, help="minutes before samples are judged (default: 5)"
    )
    parser.add_argument(
        "--sample", type=float, default=30.0, help="seconds between two samples (default: 30)"
    )
    parser.add_argument("--json", type=Path, help="write the samples to this file")
    parser.add_argument("--document", type=Path, help="write the page to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
