"""`python -m bench.tokens`: tokens and dollars of an agent's iterations, on the sandbox with its fixed corpus.

The shipped installation runs as `vigil up` starts it. A proxy in front of the model records each call. The sandbox decides
by rules, so the figures are those of a well-behaved model. Exit code 1 with --check if tokens or dollars are more than
TOLERANCE above the recorded ones, or if fewer facts are found.
"""

import argparse
import json
import pickle
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from bench.tokens.counting import Part
from bench.tokens.figures import (
    PRICED,
    Figures,
    compared,
    facts_per_usd,
    figures_of,
    mean,
    rules_hash,
)
from bench.tokens.missions import MISSIONS
from bench.tokens.run import Recording, record

RECORDED: Final = Path(__file__).with_name("recorded.json")
ITERATIONS: Final = 16
TOLERANCE: Final = 0.05
CHECKED: Final = ("input", "output", "usd")
"""Figures that must not grow."""
_OTHER_RULES: Final = (
    "The sandbox's rules have changed, so the recorded figures cannot be compared. Measure the revision before with the new "
    "rules, then run with --accept."
)
_COLUMNS: Final = ("calls", "input", "cached", "output", *(str(part) for part in Part))


def main() -> int:
    arguments = _parse_arguments()
    console = Console(width=150)
    recordings = (
        [pickle.loads(file.read_bytes()) for file in arguments.recordings]
        if arguments.recordings
        else _record(arguments)
    )
    figures = [figures_of(recording) for recording in recordings]
    for each in figures:
        _show(console, each)
    _show_mean(console, figures)
    rows = {each.mission: compared(each) for each in figures}
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([asdict(each) for each in figures], indent=1) + "\n")
    if arguments.accept:
        content = json.loads(RECORDED.read_text())
        kept = content["missions"] if content["rules"] == rules_hash() else {}
        content = {"rules": rules_hash(), "missions": {**kept, **rows}}
        RECORDED.write_text(json.dumps(content, indent=1) + "\n")
    if not arguments.check:
        return 0
    recorded = json.loads(RECORDED.read_text())
    if recorded["rules"] != rules_hash():
        console.print(_OTHER_RULES)
        return 1
    faults = [
        f"{name}: {fault}"
        for name, row in rows.items()
        for fault in worse(recorded["missions"][name], row)
    ]
    for fault in faults:
        console.print(fault)
    return 1 if faults else 0


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.tokens", description=__doc__)
    parser.add_argument("--iterations", type=int, default=ITERATIONS)
    parser.add_argument(
        "--mission",
        action="append",
        choices=[mission.name for mission in MISSIONS],
        help="only this one; repeatable",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument(
        "--save",
        type=Path,
        metavar="DIR",
        help="keep the recordings there, one file for each mission",
    )
    parser.add_argument(
        "--recordings", type=Path, nargs="+", metavar="FILE", help="count these instead of running"
    )
    parser.add_argument("--check", action="store_true", help=f"compare with {RECORDED.name}")
    parser.add_argument("--accept", action="store_true", help=f"write {RECORDED.name}")
    return parser.parse_args()


def _record(arguments: argparse.Namespace) -> list[Recording]:
    progress = Console(stderr=True, quiet=not sys.stderr.isatty())
    recordings = []
    for mission in MISSIONS:
        if arguments.mission and mission.name not in arguments.mission:
            continue
        print(f"{mission.name}: {arguments.iterations} iterations", flush=True)
        recording = record(mission.text, arguments.iterations, progress)
        if arguments.save is not None:
            arguments.save.mkdir(parents=True, exist_ok=True)
            (arguments.save / f"{mission.name}.pickle").write_bytes(pickle.dumps(recording))
        recordings.append(recording)
    return recordings


def worse(recorded: Mapping[str, float], now: Mapping[str, float]) -> list[str]:
    """What is worse than recorded, in words."""
    faults = [
        f"{name} is {now[name]:,.4g}, recorded was {recorded[name]:,.4g} (+{now[name] / recorded[name] - 1:.0%})"
        for name in CHECKED
        if now[name] > recorded[name] * (1 + TOLERANCE)
    ]
    if now["correct_facts"] < recorded["correct_facts"] * (1 - TOLERANCE):
        faults.append(
            f"{now['correct_facts']} correct facts, recorded were {recorded['correct_facts']}"
        )
    if now["wrong_facts"] > recorded["wrong_facts"]:
        faults.append(f"{now['wrong_facts']} wrong facts, recorded were {recorded['wrong_facts']}")
    return faults


def _show(console: Console, figures: Figures) -> None:
    table = Table(
        title=f"{figures.mission}: an iteration ({figures.working} of {figures.iterations} called the model)"
    )
    table.add_column("phase")
    for name in _COLUMNS:
        table.add_column(name, justify="right")
    table.add_column("shared with the last", justify="right")
    table.add_column("in parallel", justify="right")
    for phase, row in figures.by_phase.items():
        shared, parallel = figures.shared.get(phase), figures.parallel.get(phase)
        table.add_row(
            phase,
            f"{row['calls']:.1f}",
            *(f"{row.get(name, 0):,.0f}" for name in _COLUMNS[1:]),
            "" if shared is None else f"{shared:,.0f}",
            "" if parallel is None else f"{parallel:.0%}",
        )
    console.print(table)
    dollars = ", ".join(
        f"{name} ${usd:.4f} (${figures.usd_uncached[name]:.4f} without cache)"
        for name, usd in figures.usd.items()
    )
    console.print(
        f"  in {figures.input:,.0f}, of which cached {figures.cached:,.0f}; out {figures.output:,.0f}; "
        f"largest call {figures.largest:,}; {figures.searches:.1f} searches (${figures.search_usd:.4f})\n"
        f"  {dollars}\n  facts: {figures.facts.correct} correct, {figures.facts.wrong} wrong\n"
    )


def _show_mean(console: Console, figures: Sequence[Figures]) -> None:
    row = mean(figures)
    console.print(
        f"mean: {row['calls']:.1f} calls, in {row['input']:,.0f}, out {row['output']:,.0f}, "
        f"largest {row['largest']:,}, {PRICED} ${row['usd']:.4f}, {row['searches']:.1f} searches; "
        f"{row['correct_facts']} correct facts, {facts_per_usd(figures):,.0f} per dollar"
    )


if __name__ == "__main__":
    sys.exit(main())
