"""Write `docs/guarantees.md`: each guarantee, the tests that prove it, and the measurements of the last run.

`python -m tests.support.chaos.guarantees FIGURES.json docs/guarantees.md`
"""

import json
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

NOT_MEASURED: Final = "not measured"
_FIGURE: Final = re.compile(r"\{([^}]+)\}")


@dataclass(frozen=True)
class Promise:
    """A guarantee that a crash could break. `measured` names figures in braces."""

    name: str
    says: str
    tests: Sequence[str]
    measured: str


def _read_promises() -> tuple[Promise, ...]:
    tables = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["promise"]
    return tuple(Promise(**table) for table in tables)


PROMISES: Final = _read_promises()


def page(measurements: Mapping[str, Any]) -> str:
    """The text of `docs/guarantees.md`."""
    counts = dict(measurements["counts"])
    strikes = {name: count for name, count in counts.items() if name in _fault_names(counts)}
    counts["strikes"] = sum(strikes.values())
    counts["iterations"] = counts.get("iterations compared", 0) + counts.get(
        "iterations under random strikes", 0
    )
    return "\n".join(
        [
            "# Guarantees",
            "",
            "What Vigil promises about its loop, the tests that prove it, and what they measured last. `make test-chaos`",
            "runs those of `tests/chaos` and writes this page.",
            "",
            f"Measured on {measurements['measured_on']}: {measurements['machine']}.",
            "",
            "| | promise | proved by (`tests/`) | measured |",
            "|---|---|---|---|",
            *(_row(promise, counts) for promise in PROMISES),
            "",
            "## Recovery",
            "",
            "| | median s | longest s |",
            "|---|---|---|",
            *_times(measurements["seconds"]),
            "",
            "## Faults injected at random",
            "",
            ", ".join(
                f"{count} × {name.removeprefix('strikes: ')}"
                for name, count in sorted(strikes.items())
            )
            or NOT_MEASURED,
            "",
            "## Checks of the checks",
            "",
            "Each of these was broken on purpose, and the scenario that otherwise passes failed:",
            "",
            *_detected_breakages(counts),
            "",
            "## What is not shown",
            "",
            "The API has no failpoints and is not killed in the random runs. In the random",
            "runs, calls in flight are bounded from above; at failpoints they are counted exactly.",
            "",
            "## What a crash can still cost",
            "",
            "A call that was in flight when its worker died: answered by the provider, and not yet committed.",
            "For each kind of call, how long that window is, and how to make a crash inside it free:",
            "[decision 0008](decisions/0008-in-flight-calls.md).",
            "",
        ]
    )


def _fault_names(counts: Mapping[str, int]) -> set[str]:
    """The names of counted faults that hit a live process."""
    names = {name for name in counts if name.startswith("strikes: ")}
    return names - {"strikes: found dead on waking"}


def _row(promise: Promise, counts: Mapping[str, int]) -> str:
    try:
        measured = _FIGURE.sub(lambda match: str(counts[match[1]]), promise.measured)
    except KeyError as missing:
        measured = f"{NOT_MEASURED} ({missing.args[0]})"
    tests = "<br>".join(f"`{test}`" for test in promise.tests)
    return f"| {promise.name} | {promise.says} | {tests} | {measured} |"


def _times(seconds: Mapping[str, Sequence[float]]) -> list[str]:
    if not seconds:
        return [f"| {NOT_MEASURED} | | |"]
    return [
        f"| {name} | {median(samples):.2f} | {max(samples):.2f} |"
        for name, samples in sorted(seconds.items())
    ]


def _detected_breakages(counts: Mapping[str, int]) -> list[str]:
    breakages = [
        name.removeprefix("found out: ") for name in counts if name.startswith("found out: ")
    ]
    return [f"- {name}" for name in sorted(breakages)] or [NOT_MEASURED]


def main(figures: str, document: str) -> None:
    Path(document).write_text(page(json.loads(Path(figures).read_text())))


if __name__ == "__main__":
    main(*sys.argv[1:])
