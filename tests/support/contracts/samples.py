"""One sample of each event, from which a release's files are written once.

`python -m tests.support.contracts.samples VERSION` writes them. Released files are never changed or removed: services of
older releases may have published such events. Next to the samples is the JSON Schema of each event in that release;
`released/SHA256SUMS` has the checksums of all files.
"""

import argparse
import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from shared.events import models as events
from shared.events.codec import encode
from shared.events.envelope import Event
from tests.support.paths import TESTS

RELEASED: Final = TESTS / "contracts" / "released"
SHAPES: Final = "shapes.json"
SUMS: Final = "SHA256SUMS"

ABOUT: dict[str, Any] = {
    "agent_id": UUID(int=1),
    "iteration_id": UUID(int=2),
    "occurred_at": datetime(2026, 11, 21, 12, 30, 0, 250_000, tzinfo=UTC),
}
STEP: dict[str, Any] = ABOUT | {"step_id": UUID(int=3)}
ORDER: dict[str, Any] = {key: fact for key, fact in STEP.items() if key != "iteration_id"}
"""An agent task: a step without an iteration."""
QUERY = events.Query(objective="Find X", reasoning="It matters", search_hints=["X 2026"])
INSIGHT = events.Insight(
    observation="A and B move together",
    relevant_node_ids=[UUID(int=4), UUID(int=5)],
    synthesis_direction="Which moves first?",
)


def samples() -> Iterator[Event]:
    yield events.IterationStarted.of(**STEP, number=7, why="run_now")
    yield events.PlanProduced.of(**STEP, queries=2, insights=1)
    yield events.PlanFailed.of(**STEP, error="the key is wrong")
    yield events.QueryRequested.of(**STEP, query=QUERY)
    yield events.QueryCompleted.of(**STEP, nodes=5, edges=3)
    yield events.QueryFailed.of(**STEP, error="no answer")
    yield events.InsightRequested.of(**STEP, insight=INSIGHT)
    yield events.InsightCompleted.of(**STEP, analyses=0, missing=["Revenue of B in 2025"])
    yield events.InsightFailed.of(**STEP, error="no answer")
    yield events.AnalysisProduced.of(**STEP, analysis_ids=[UUID(int=6)])
    yield events.AdviceProduced.of(**STEP, advice_id=UUID(int=8), action="HOLD")
    yield events.AdviceCompleted.of(**STEP, advice=1)
    yield events.AdviceFailed.of(**STEP, error="no answer")
    yield events.IterationCompleted.of(
        **ABOUT,
        number=7,
        queries=2,
        insights=1,
        analyses=1,
        advice=1,
        errors=["query: no answer"],
        cost_usd=0.0125,
        graph_root="5a" * 32,
    )
    yield events.IterationFailed.of(**ABOUT, number=7, errors=["observe: the key is wrong"])
    yield events.ConfigurationRequested.of(**ORDER)
    yield events.ConfigurationCompleted.of(**ORDER)
    yield events.ConfigurationFailed.of(**ORDER, error="the key is wrong")
    yield events.AnswerRequested.of(**ORDER)
    yield events.AnswerCompleted.of(**ORDER)
    yield events.AnswerFailed.of(**ORDER, error="no answer")


def shapes() -> dict[str, Any]:
    """Return the JSON Schemas of all events, by their type."""
    return {event.wire_type: event.model_json_schema() for event in events.EVENTS}


def sums() -> str:
    """Return the checksums of all released files, in the format of `sha256sum`."""
    files = sorted(file for file in RELEASED.glob("*/*") if file.is_file())
    return "".join(
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(RELEASED)}\n"
        for file in files
    )


def write(directory: Path) -> None:
    """Write the files of a release into `directory`, and the checksums of all releases next to it."""
    directory.mkdir(parents=True, exist_ok=True)
    for sample in samples():
        _write(directory / f"{sample.type}.json", json.loads(encode(sample)))
    _write(directory / SHAPES, shapes())
    (RELEASED / SUMS).write_text(sums(), encoding="utf-8")


def _write(file: Path, content: object) -> None:
    """Write a file unless it exists."""
    if not file.exists():
        file.write_text(f"{json.dumps(content, indent=2)}\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Writes the samples of a release.")
    parser.add_argument("release", help="its version, such as 0.3.0")
    write(RELEASED / parser.parse_args().release)
