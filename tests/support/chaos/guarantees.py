"""Write `docs/guarantees.md`: each guarantee, the tests that prove it, and the measurements of the last run.

`python -m tests.support.chaos.guarantees FIGURES.json docs/guarantees.md`
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

NOT_MEASURED: Final = "not measured"
_FIGURE: Final = re.compile(r"\{([^}]+)\}")


@dataclass(frozen=True)
class Promise:
    """A guarantee. `measured` names figures in braces; if one is missing, the cell says "not measured"."""

    name: str
    says: str
    tests: tuple[str, ...]
    measured: str


PROMISES: Final = (
    Promise(
        "G1",
        "Kill any process at any instruction: the iteration still ends, once.",
        (
            "chaos/test_kill_matrix.py::test_killed_at",
            "chaos/test_statement_kills.py",
            "chaos/test_kill_matrix.py::test_killed_while_draining",
            "chaos/test_feedback_round.py::test_killed_in_a_round",
            "chaos/test_random_faults.py::test_random_faults_for_a_long_time",
            "chaos/test_random_faults.py::test_an_engine_outage",
        ),
        "{kills at a chosen point} kills at chosen points and {strikes} random strikes; {iterations} iterations, "
        "all ended once, each with the result of an undisturbed run",
    ),
    Promise(
        "G2",
        "A lost message loses no work.",
        (
            "integration/runtime/test_lost_bus.py",
            "integration/workflow/test_reconciler.py",
            "integration/runtime/test_pull_loop.py",
            "chaos/test_power_loss.py",
        ),
        "see the tests: stream and consumers deleted, messages purged, the last ones lost with the power",
    ),
    Promise(
        "G3",
        "A finished call is never paid for twice.",
        (
            "chaos/test_kill_matrix.py::test_killed_at",
            "chaos/test_feedback_round.py::test_killed_in_a_round",
            "integration/billing/test_payment.py",
            "integration/billing/test_resumable_calls.py",
        ),
        "only calls in flight were paid for twice: {of these paid twice} of "
        "{calls in flight when somebody was struck} in the matrix, {of these paid twice under strikes} of at most "
        "{calls in flight when strikes fell} under random strikes",
    ),
    Promise(
        "G4",
        "Two workers on one step cannot both write.",
        (
            "chaos/test_concurrent_agents.py::test_a_worker_that_wakes_with_an_old_epoch_cannot_write",
            "integration/workflow/test_leases.py",
        ),
        "{zombies refused} woken with an answer to write and refused; {strikes: freeze} frozen at random",
    ),
    Promise(
        "G5",
        "Effects happen once.",
        (
            "chaos/test_kill_matrix.py::test_killed_at",
            "chaos/test_feedback_round.py::test_killed_in_a_round",
            "integration/workflow/test_delivery_order.py",
        ),
        "{iterations} iterations with the same canonical graph, inbox and conversation as an undisturbed one",
    ),
    Promise(
        "G6",
        "A join fires once, and always.",
        (
            "unit/aggregator/test_join_random.py",
            "chaos/test_concurrent_agents.py::test_two_aggregators_join_an_iteration_once",
            "chaos/test_feedback_round.py::test_killed_in_a_round",
        ),
        "{joins by two at the same instant} join by two at the same instant; random sequences of ticks: see the test",
    ),
    Promise(
        "G7",
        "A message that cannot be handled blocks nothing else.",
        ("integration/workflow/test_dead_letters.py", "integration/workflow/test_retry.py"),
        "see the tests: every kind of dead letter stored, shown, retried, discarded",
    ),
    Promise(
        "",
        "Another worker has a step within 15 s after its worker was killed, and at once if its worker was stopped.",
        ("chaos/test_recovery.py", "chaos/test_handover.py"),
        "see below",
    ),
    Promise(
        "",
        "No agent runs twice at once, and no due run is missed, with any number of schedulers and any clocks.",
        ("integration/workflow/test_schedulers.py",),
        "see the test: three schedulers, a minute apart, killed at random",
    ),
    Promise(
        "",
        "A full disk of PostgreSQL loses nothing.",
        ("chaos/test_disk_full.py",),
        "{iterations over a full disk} iterations; of {calls in flight when the disk was full} calls in flight "
        "{of these paid twice after a full disk} paid twice",
    ),
    Promise(
        "",
        "Migrations that only add, and a restart of every service in turn, disturb no running iteration.",
        (
            "chaos/test_upgrade.py",
            "unit/repository/test_expanding_migrations.py",
            "contracts/test_events.py",
        ),
        "{iterations under a migration} iterations under a migration, {iterations under a rolling restart} under a "
        "rolling restart",
    ),
    Promise(
        "",
        "A backup that is taken while agents work is restored as it was, and every open iteration ends once.",
        ("chaos/test_restore.py", "integration/backup/test_kills.py"),
        "{restore drills} drills; {open iterations continued from a backup} open iterations continued, no answered call "
        "paid again",
    ),
)
"""The guarantees that a crash could break; limits of the phases and evidence of advice are tested elsewhere."""


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
