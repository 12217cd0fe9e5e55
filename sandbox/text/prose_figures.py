"""Figures in running text, and a label for each made of the words around it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sandbox.text.trends import is_level_word, is_trend_word
from sandbox.text.word_set import word_set
from sandbox.text.words import STOP_WORDS, WORD, meaningful, without_possessive

SCALES = {
    "thousand": 1e3,
    "million": 1e6,
    "billion": 1e9,
    "trillion": 1e12,
    "bn": 1e9,
    "mn": 1e6,
    "m": 1e6,
}
NUMBER = r"[-−]?\d{1,3}(?:,\d{3})+(?:\.\d+)?|[-−]?\d+(?:\.\d+)?"
LONG_UNIT = (
    r"(?:giga|mega|kilo|tera)watt[ -]hours?|metric tons|cubic met(?:er|re)s|square (?:kilo)?met(?:er|re)s"
    r"|barrels (?:a|per) day"
)
FIGURE = re.compile(
    rf"(?<![\w.,/-])(?P<money>(?:US)?[$€£¥]\s?)?(?:{NUMBER})(?![\w-]|,\d|\.\d)"
    r"(?:\s?(?:thousand|million|billion|trillion|bn|mn)\b)?"
    rf"(?P<unit>\s?%|\s(?:{LONG_UNIT}|percent|per cent)\b|\s[A-Za-z]+(?:/[a-z]+)*)?"
    r"(?P<of>\sof\s[a-z-]+(?:\s[a-z-]+)?)?"
)
BARE_YEAR = re.compile(r"^(?:19|20)\d\d\b(?!\s?(?:%|percent|million|billion|thousand))")
IN_YEAR = re.compile(r"^[^,;:.]*?\bin ((?:19|20)\d\d)\b")
CLAUSE_END = re.compile(r"[,;:()]|\s[—–-]\s")
MONTHS = word_set(
    "january february march april may june july august september october november december"
)
REPORTING = word_set(
    "according announced buy employs estimated expected expects forecast operated operates paid pay percent plans planned "
    "reported said says spent told"
)
MADE = word_set(
    "bought built delivered employed employs exported made mined opened produced refined sold shipped supplied"
)
"""What was done with what is counted: it is a part of the label."""
LABEL_WORDS = 3


@dataclass(frozen=True, slots=True)
class Figure:
    """`value` stands in its sentence letter by letter."""

    label: str
    value: str


def prose_figures(sentence: str, names: Iterable[str]) -> list[Figure]:
    """`produced 9 GWh of cells in 2025` states 9 GWh as its figure for `cells produced 2025`."""
    name_words = frozenset(word for name in names for word in WORD.findall(name))
    found = (_figure(sentence, match, name_words) for match in FIGURE.finditer(sentence))
    return [figure for figure in found if figure]


def _figure(sentence: str, match: re.Match[str], name_words: frozenset[str]) -> Figure | None:
    value = _without_stop_words(match.group())
    unit = (match["unit"] or "").strip().lower()
    if BARE_YEAR.match(value) or unit in MONTHS or value.replace(",", "").isdigit():
        return None
    before = CLAUSE_END.split(sentence[: match.start()])[-1]
    label = _counted(value, unit, match) or _words_before(before, name_words)
    if not label:
        return None
    year = IN_YEAR.match(sentence[match.start() + len(value) :])
    parts = [label, _done(before) if _counted(value, unit, match) else _moved(before, unit)]
    return Figure(" ".join(filter(None, [*parts, year.group(1) if year else ""])), value)


def _without_stop_words(value: str) -> str:
    kept = value.split(" ")
    while len(kept) > 1 and kept[-1].lower() in STOP_WORDS:
        kept.pop()
    return " ".join(kept)


def _counted(value: str, unit: str, match: re.Match[str]) -> str:
    """What there is so much of: behind an `of`, or a plural in the unit's place."""
    _, of, noun = value.partition(" of ")
    if of:
        return noun
    is_plural = (
        (unit.endswith("s") or unit == "people") and unit.isalpha() and value.lower().endswith(unit)
    )
    return unit if is_plural and not match["money"] else ""


def _done(before: str) -> str:
    done = next((word for word in reversed(WORD.findall(before)[-3:]) if word in MADE), "")
    return "employed" if done == "employs" else done


def _moved(before: str, unit: str) -> str:
    """A share is told with the word of its direction: `Revenue rose`."""
    last = WORD.findall(before)[-2:]
    moves = [word for word in last if is_trend_word(word) and not is_level_word(word)]
    return moves[-1] if moves and unit in {"%", "percent", "per cent"} else ""


def _words_before(before: str, name_words: frozenset[str]) -> str:
    kept = [
        word
        for word in (without_possessive(word) for word in WORD.findall(before))
        if meaningful(word)
        and word not in name_words
        and word[0].isalpha()
        and (word[0].islower() or before.lstrip().startswith(word))
        and not is_trend_word(word)
        and word.lower() not in REPORTING
        and not word.endswith("ed")
    ]
    return " ".join(kept[-LABEL_WORDS:])
