"""The fixed missions, and how many correct facts a graph holds of them."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from bench.tokens.run import Recording
from sandbox.corpus import load
from sandbox.settings import DEFAULT_CORPUS
from sandbox.text.tokens import fold, words


@dataclass(frozen=True)
class Mission:
    name: str
    text: str
    subjects: frozenset[str]
    """The countries that it is about. Facts on others are not counted."""


def _names(text: str) -> frozenset[str]:
    return frozenset(fold(name.strip()) for name in text.split(","))


MISSIONS: Final = (
    Mission(
        "west-africa",
        "Watch energy supply and exports of West African economies, and find what investors should know",
        _names(
            "Benin, Burkina Faso, Cabo Verde, Cote d'Ivoire, The Gambia, Ghana, Guinea, Guinea-Bissau, Liberia, Mali, "
            "Mauritania, Niger, Nigeria, Senegal, Sierra Leone, Togo"
        ),
    ),
    Mission(
        "mediterranean",
        "Track military spending, energy imports and public debt of Greece, Turkey and Egypt",
        _names("Greece, Turkey, Turkey (Turkiye), Egypt"),
    ),
    Mission(
        "andes",
        "Monitor inflation, mining and exports in Chile, Peru and Bolivia",
        _names("Chile, Peru, Bolivia"),
    ),
)

_LINE: Final = re.compile(r"^(?P<subject>.+?) — (?P<label>.+?): (?P<value>.+)$")
_NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*")
_NO_FIGURES: Final = frozenset({"quote", "summary"})
"""Properties that repeat the source in words."""


@dataclass(frozen=True)
class _Figure:
    """A figure: of the corpus, or one that a graph claims."""

    label: frozenset[str]
    numbers: frozenset[str]
    text: str


@dataclass(frozen=True)
class Facts:
    correct: int
    """Distinct figures of the mission's subjects that the corpus states too."""
    wrong: int
    """Figures of the mission's subjects that it does not state."""


def count_facts(recording: Recording, mission: Mission) -> Facts:
    correct: set[tuple[str, str, str]] = set()
    wrong: set[tuple[str, str, str]] = set()
    stated = _stated_figures()
    for subject, label, value, target in _claims(recording):
        if subject not in mission.subjects:
            continue
        claimed = _figure(label, value)
        is_stated = any(
            claimed.label <= figure.label
            and claimed.numbers <= figure.numbers
            and target in figure.text
            for figure in stated[subject]
        )
        (correct if is_stated else wrong).add((subject, f"{label} {target}", value))
    return Facts(len(correct), len(wrong))


def _claims(recording: Recording) -> Iterator[tuple[str, str, str, str]]:
    """Subject, label, value, and for edges the target of each property with a number."""
    for node in recording.nodes:
        for label, value in _figures(node["properties"]):
            yield fold(node["name"]), label, value, ""
    for edge in recording.edges:
        for _, value in _figures(edge["properties"]):
            yield fold(edge["source"]), edge["type"], value, fold(edge["target"])


def _figures(properties: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for label, value in properties.items():
        if label not in _NO_FIGURES and _NUMBER.search(str(value)):
            yield label, str(value)


def _figure(label: str, value: str) -> _Figure:
    label_words = frozenset(fold(word) for word in words(label.replace("_", " ")))
    return _Figure(label_words, frozenset(_NUMBER.findall(value)), fold(value))


@cache
def _stated_figures() -> Mapping[str, list[_Figure]]:
    figures: dict[str, list[_Figure]] = defaultdict(list)
    for document in load(DEFAULT_CORPUS).documents:
        for line in document.text.splitlines():
            if match := _LINE.match(line):
                figures[fold(match["subject"])].append(_figure(match["label"], match["value"]))
    return figures
