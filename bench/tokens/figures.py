"""The figures of recordings: tokens, shared prefixes and dollars."""

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from statistics import median
from typing import Final

from bench.tokens.counting import CountedCall, cached_tokens, common_prefix, counted
from bench.tokens.missions import MISSIONS, Facts, count_facts
from bench.tokens.run import Recording

INTERVAL_SECONDS: Final = 300.0


@dataclass(frozen=True)
class Price:
    """USD per million tokens."""

    input: float
    cached: float
    output: float

    def usd(self, input_tokens: int, cached: int, output_tokens: int) -> float:
        fresh = input_tokens - cached
        return (fresh * self.input + cached * self.cached + output_tokens * self.output) / 1e6


PRICES: Final[Mapping[str, Price]] = {
    "gpt-5-mini": Price(0.25, 0.025, 2.00),
    "gpt-4.1-mini": Price(0.40, 0.10, 1.60),
    "gpt-5.4-mini": Price(0.75, 0.075, 4.50),
}
"""List prices of 2026-11-22, from public price pages."""
PRICED: Final = "gpt-5-mini"
"""The model whose dollars the check compares."""
SEARCH_USD: Final = 0.008
"""Of one search request."""

SANDBOX: Final = Path(__file__).parents[2] / "sandbox"
_RULES: Final = ("model/*.py", "model/*.toml", "text/*.py", "text/*.toml", "search/*.py")
_FORMAT: Final = frozenset({"graph_view.py", "request.py"})
"""Files that read the prompts' format, and decide nothing."""


def rules_hash() -> str:
    """A hash of the code that decides what the sandbox answers. Figures under different rules cannot be compared."""
    digest = hashlib.sha256()
    files = {file for pattern in _RULES for file in SANDBOX.glob(pattern)}
    for file in sorted(files):
        if file.name not in _FORMAT:
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Figures:
    """Of one mission. Tokens, calls, searches and dollars are means of an iteration that called the model."""

    mission: str
    iterations: int
    working: int
    """Iterations that called the model."""
    calls: float
    input: float
    output: float
    largest: int
    """Input tokens of the largest call."""
    cached: float
    """Input tokens that the simulated cache held."""
    usd: Mapping[str, float]
    """By model, with the simulated cache."""
    usd_uncached: Mapping[str, float]
    searches: float
    search_usd: float
    by_phase: Mapping[str, Mapping[str, float]]
    """Calls, input, cached and output, and input by part."""
    shared: Mapping[str, float]
    """Median tokens that the first calls of a phase share between one iteration and the next."""
    parallel: Mapping[str, float]
    """Of the first calls of parallel runs of a phase: the median share of the input that they have in common."""
    facts: Facts

    @property
    def total_usd(self) -> float:
        """Dollars of all iterations, without searches."""
        return self.usd[PRICED] * self.working


def figures_of(recording: Recording) -> Figures:
    calls = counted(recording)
    hits = cached_tokens(calls, INTERVAL_SECONDS)
    working = len({call.call.iteration for call in calls})
    each = 1 / max(working, 1)
    total_input, total_output, total_cached = (
        sum(call.input for call in calls),
        sum(call.output for call in calls),
        sum(hits),
    )
    mission = next(mission for mission in MISSIONS if mission.text == recording.mission)
    return Figures(
        mission.name,
        recording.iterations,
        working,
        len(calls) * each,
        total_input * each,
        total_output * each,
        max((call.input for call in calls), default=0),
        total_cached * each,
        {
            name: price.usd(total_input, total_cached, total_output) * each
            for name, price in PRICES.items()
        },
        {name: price.usd(total_input, 0, total_output) * each for name, price in PRICES.items()},
        len(recording.searches) * each,
        SEARCH_USD * len(recording.searches) * each,
        _by_phase(calls, hits, each),
        _shared_between_iterations(calls),
        _shared_in_parallel(calls),
        count_facts(recording, mission),
    )


def _by_phase(
    calls: Sequence[CountedCall], hits: Sequence[int], each: float
) -> dict[str, dict[str, float]]:
    phases: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for call, hit in zip(calls, hits, strict=True):
        row = phases[call.call.phase]
        row["calls"] += each
        row["input"] += call.input * each
        row["cached"] += hit * each
        row["output"] += call.output * each
        for part, tokens in call.by_part.items():
            row[str(part)] += tokens * each
    return {phase: dict(row) for phase, row in phases.items()}


def _first_calls(calls: Sequence[CountedCall]) -> dict[str, dict[int, list[CountedCall]]]:
    """The first calls of the runs, by phase and iteration."""
    firsts: dict[str, dict[int, list[CountedCall]]] = defaultdict(lambda: defaultdict(list))
    for call in calls:
        if call.call.round == 0:
            firsts[call.call.phase][call.call.iteration].append(call)
    return firsts


def _shared_between_iterations(calls: Sequence[CountedCall]) -> dict[str, float]:
    return {
        phase: median(
            max(common_prefix(one.tokens, other.tokens) for one in before for other in after)
            for (_, before), (_, after) in pairwise(sorted(by_iteration.items()))
        )
        for phase, by_iteration in _first_calls(calls).items()
        if len(by_iteration) > 1
    }


def _shared_in_parallel(calls: Sequence[CountedCall]) -> dict[str, float]:
    shares = {
        phase: [
            common_prefix(one.tokens, other.tokens) / max(len(one.tokens), len(other.tokens))
            for of_iteration in by_iteration.values()
            for one, other in combinations(of_iteration, 2)
        ]
        for phase, by_iteration in _first_calls(calls).items()
    }
    return {phase: median(values) for phase, values in shares.items() if values}


def compared(figures: Figures) -> dict[str, float]:
    """The figures that are recorded and compared."""
    return {
        "calls": round(figures.calls, 2),
        "input": round(figures.input),
        "output": round(figures.output),
        "largest": figures.largest,
        "usd": round(figures.usd[PRICED], 6),
        "searches": round(figures.searches, 2),
        "correct_facts": figures.facts.correct,
        "wrong_facts": figures.facts.wrong,
    }


def facts_per_usd(figures: Sequence[Figures]) -> float:
    usd = sum(each.total_usd for each in figures)
    return sum(each.facts.correct for each in figures) / usd if usd else 0.0


def mean(figures: Sequence[Figures]) -> dict[str, float]:
    """Means over the missions, but the largest call and the sum of the facts."""
    rows = [compared(each) for each in figures]
    means = {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}
    sums = {name: sum(row[name] for row in rows) for name in ("correct_facts", "wrong_facts")}
    return {**means, **sums, "largest": max(row["largest"] for row in rows)}
