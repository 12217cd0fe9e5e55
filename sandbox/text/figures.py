"""Figures: numbers with their unit, and what they are figures of."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sandbox.text.labels import REMARK, LabelLine, parse_label
from sandbox.text.prose_figures import NUMBER, SCALES, Figure, prose_figures

AMOUNT = re.compile(
    rf"(?P<money>[-−]?(?:US)?[$€£¥]\s?)?(?P<number>{NUMBER})(?![\w-])\s?(?P<scale>{'|'.join(SCALES)})?\b\s?"
    r"(?P<unit>%|percent|per cent|[A-Za-z]+(?:/[a-z]+)*)?"
)
MAX_FIGURE_CHARS = 90
MAX_FIGURE_WORDS = 8
"""More of them, remarks in brackets left out, are a sentence."""

__all__ = ["Amount", "Figure", "amount", "figures"]


@dataclass(frozen=True, slots=True)
class Amount:
    """A figure's size; amounts compare where their units are one."""

    number: float
    unit: str


def figures(sentence: str, names: Iterable[str] = ()) -> list[Figure]:
    """The figures a sentence states: the value of a labelled fact, or numbers with a unit in prose.

    `names` are the proper names in the sentence: they are never a part of a figure's label.
    """
    line = parse_label(sentence)
    return _labelled(line) if line else prose_figures(sentence, names)


def amount(value: str) -> Amount | None:
    """The first number of `value` with its scale applied: `$25.4 billion` is 25.4e9 of `$`."""
    match = AMOUNT.search(value)
    if not match:
        return None
    number = float(match["number"].replace(",", "").replace("−", "-"))
    money = (match["money"] or "").strip()
    negative = money.startswith(("-", "−"))
    scaled = number * SCALES.get(match["scale"] or "", 1.0) * (-1 if negative else 1)
    return Amount(scaled, money.lstrip("-−") or _unit(match["unit"]))


def _unit(unit: str | None) -> str:
    return "%" if unit in {"percent", "per cent"} else unit or ""


def _closed(value: str) -> str:
    """Without a bracket that a cut has left open."""
    is_open = value.count("(") > value.count(")")
    return (value[: value.rindex("(")] if is_open else value).strip()


def _labelled(line: LabelLine) -> list[Figure]:
    value = _closed(line.value.split(";")[0])
    is_prose = len(REMARK.sub("", value).split()) > MAX_FIGURE_WORDS
    if not line.has_figure or line.is_note or is_prose or len(value) > MAX_FIGURE_CHARS:
        return []
    return [Figure(line.label, value)]
