"""Labelled pairs of names with what is known of their things: the same, different, or unknown.

`development.jsonl` was written before the rules, which were then developed with it. `held_out.jsonl` was written before the
rules too, and compared once, when they were finished. A pair is `unknown` if nobody could say from what is given.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import orjson

from shared.graph.entity_resolution.comparison import Comparison, Described, Verdict, compare
from shared.graph.entity_resolution.facts import identifying_facts
from shared.tools import Json

Label = Literal["same", "different", "unknown"]
_FOLDER: Final = Path(__file__).parent


class Thing(NamedTuple):
    name: str
    properties: Json


class Pair(NamedTuple):
    label: Label
    type_name: str
    one: Thing
    other: Thing

    @property
    def text(self) -> str:
        return f"{self.label}: {self.type_name} {self.one} / {self.other}"


def load_pairs(name: str) -> list[Pair]:
    """The pairs of a file."""
    lines = (_FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [_pair(orjson.loads(line)) for line in lines]


def _pair(line: Any) -> Pair:
    return Pair(line["label"], line["type"], _thing(line["one"]), _thing(line["other"]))


def _thing(line: Any) -> Thing:
    properties = dict(line.get("properties", {}))
    if "description" in line:
        properties["summary"] = line["description"]
    return Thing(line["name"], properties)


def compare_pair(pair: Pair) -> Comparison:
    """What resolution decides when `other` is written and `one` is known."""
    known, new = (
        Described(pair.type_name, each.name, identifying_facts(pair.type_name, each.properties, {}))
        for each in (pair.one, pair.other)
    )
    return compare(new, known)


@dataclass(frozen=True)
class Figures:
    """How often resolution is right."""

    merged: int
    merged_wrongly: int
    """Pairs that are different or unknown."""
    same: int
    same_found: int
    """Merged or asked about."""
    unknown: int
    unknown_asked: int
    different: int
    different_asked: int

    @property
    def precision(self) -> float:
        return 1 - self.merged_wrongly / self.merged

    @property
    def recall(self) -> float:
        return self.same_found / self.same


def measure(pairs: Iterable[Pair]) -> Figures:
    verdicts = [(pair.label, compare_pair(pair).verdict) for pair in pairs]

    def count(label: str, *of: Verdict) -> int:
        return sum(each == label and verdict in of for each, verdict in verdicts)

    wrong = count("different", Verdict.SAME) + count("unknown", Verdict.SAME)
    return Figures(
        merged=wrong + count("same", Verdict.SAME),
        merged_wrongly=wrong,
        same=count("same", *Verdict),
        same_found=count("same", Verdict.SAME, Verdict.ASK),
        unknown=count("unknown", *Verdict),
        unknown_asked=count("unknown", Verdict.ASK),
        different=count("different", *Verdict),
        different_asked=count("different", Verdict.ASK),
    )
