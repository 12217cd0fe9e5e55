"""`python -m bench.soak`: many agents for an hour; memory, lag, tables and streams sampled: flat lines, or an explanation.

The shipped actors and the api, each in its process, on NATS and PostgreSQL as they are shipped; the scheduler starts the
iterations; the model and the search answer at once. SIGINT and SIGTERM end it early, and the page tells what was seen.
Exit code 1 where something grows that should not, an iteration failed, or something waits at the end.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from bench.engines import engines, provision
from bench.loop.__main__ import DATABASE
from bench.loop.measuring import Place
from bench.loop.report import machine
from bench.soak import report
from bench.soak.running import soak
from bench.soak.sample import Run
from bench.soak.verdict import faults
from shared.runtime.settings import Settings


def main() -> int:
    asked = _asked()
    load = os.getloadavg()[0]
    run = Run(asked.agents, asked.period, asked.warm_up * 60, asked.minutes * 60, load)
    with (
        tempfile.TemporaryDirectory() as home,
        engines(Path(home), durable=True) as (postgres, nats),
    ):
        settings = Settings(database_url=postgres.url(DATABASE), nats_url=nats.url)
        provision(settings)
        place = Place(settings, Path(home), DATABASE, postgres, nats)
        try:
            asyncio.run(soak(place, run, asked.sample))
        finally:  # whatever ends it, what was seen is kept
            told = report.document(run, settings)
            print(told)
            _write(asked.json, json.dumps({"machine": machine(), **asdict(run)}, indent=1) + "\n")
            _write(asked.document, told)
    found = faults(run)
    for line in found:
        print(line, file=sys.stderr)
    return int(bool(found))


def _write(path: Path | None, text: str) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="in all (default: 60)")
    parser.add_argument("--agents", type=int, default=50, help="(default: 50)")
    parser.add_argument(
        "--period", type=int, default=60, help="seconds between an agent's iterations (default: 60)"
    )
    parser.add_argument(
        "--warm-up", type=float, default=5.0, help="minutes that are not judged (default: 5)"
    )
    parser.add_argument(
        "--sample", type=float, default=30.0, help="seconds between two samples (default: 30)"
    )
    parser.add_argument("--json", type=Path, help="where the samples go")
    parser.add_argument("--document", type=Path, help="where the page goes too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
