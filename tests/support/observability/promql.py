"""Which metrics and labels an expression of PromQL uses, and which ones exist."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from services.api.http.metrics import Metrics
from shared.telemetry import metrics

TARGET_LABELS: Final = frozenset({"job", "instance", "service"})
"""Set by the scrape configuration."""
OF_PROMETHEUS: Final[Mapping[str, frozenset[str]]] = {
    "up": frozenset(),
    "ALERTS": frozenset({"alertname", "alertstate"}),
}
_WORDS: Final = frozenset(
    {
        *("sum", "min", "max", "count", "avg", "by", "on", "and", "or", "unless", "offset"),
        *("rate", "increase", "histogram_quantile", "absent", "label_replace", "vector", "abs"),
    }
)
_STRING: Final = re.compile(r'"[^"]*"')
_MATCHERS: Final = re.compile(r"([A-Za-z_]\w*)\s*\{([^}]*)\}")
_GROUPING: Final = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")
_DURATION: Final = re.compile(r"\[\w+\]|(?<=offset )\w+")
_WORD: Final = re.compile(r"[A-Za-z_]\w*")


@dataclass
class Used:
    """What an expression uses."""

    metrics: set[str] = field(default_factory=set)
    matched: set[tuple[str, str]] = field(default_factory=set)
    """Labels in braces, with their metric."""
    grouped: set[str] = field(default_factory=set)
    """Labels in `by` and `on`."""


def read(expression: str) -> Used:
    used = Used()
    text = _STRING.sub('""', expression)
    for name, matchers in _MATCHERS.findall(text):
        used.matched |= {(name, label) for label in _WORD.findall(matchers.replace('""', ""))}
    text = _MATCHERS.sub(r"\1", text)
    for labels in _GROUPING.findall(text):
        used.grouped |= set(_WORD.findall(labels))
    text = _DURATION.sub("", _GROUPING.sub("", text))
    used.metrics = set(_WORD.findall(text)) - _WORDS
    return used


def faults(expression: str) -> Iterator[str]:
    """What is wrong with the metrics and labels of an expression."""
    known, used = known_metrics(), read(expression)
    if not used.metrics:
        yield "it uses no metric"
    for name in used.metrics - set(known):
        yield f"{name} does not exist"
    for name, label in used.matched:
        if label not in known.get(name, frozenset()) | TARGET_LABELS:
            yield f"{name} has no label {label}"
    everywhere = TARGET_LABELS.union(*(known.get(name, frozenset()) for name in used.metrics))
    for label in used.grouped - everywhere:
        yield f"no metric has the label {label}"


def known_metrics() -> Mapping[str, frozenset[str]]:
    """The labels of every series that Vigil can report, by name."""
    known = dict(OF_PROMETHEUS)
    for registry in (
        metrics.REGISTRY,
        metrics.InstallationGauges().registry,
        Metrics().registry,
    ):
        for collector in _collectors(registry):
            labels = frozenset(getattr(collector, "_labelnames", ()))
            for family in (
                collector.describe() if hasattr(collector, "describe") else collector.collect()
            ):
                known |= _series(family.name, family.type, labels)
    return known


def _series(name: str, kind: str, labels: frozenset[str]) -> dict[str, frozenset[str]]:
    if kind == "counter":
        return {f"{name}_total": labels}
    if kind == "histogram":
        ends = {f"{name}_sum": labels, f"{name}_count": labels}
        return ends | {f"{name}_bucket": labels | {"le"}}
    return {name: labels}


def _collectors(registry: CollectorRegistry) -> list[Collector]:
    return list(registry._collector_to_names)
