"""Figures: numbers with their unit, and a label for each."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sandbox.text.sentences import REMARK, LabelLine, is_level_word, is_trend_word, parse_label
from sandbox.text.tokens import STOP_WORDS, WORD, is_meaningful, without_possessive, word_set

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
REPORTING_VERBS = word_set(
    "according announced buy employs estimated expected expects forecast operated operates paid pay percent plans planned "
    "reported said says spent told"
)
PRODUCTION_VERBS = word_set(
    "bought built delivered employed employs exported made mined opened produced refined sold shipped supplied"
)
"""Verbs that become a part of the label of what they count."""
LABEL_WORDS = 3


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure and its label; `value` is a literal part of the sentence."""

    label: str
    value: str


def find_prose_figures(sentence: str, names: Iterable[str]) -> list[Figure]:
    """Find the figures in prose: `produced 9 GWh of cells in 2025` gives `cells produced 2025`: `9 GWh`."""
    name_words = frozenset(word for name in names for word in WORD.findall(name))
    figures = (_prose_figure(sentence, match, name_words) for match in FIGURE.finditer(sentence))
    return [figure for figure in figures if figure]


def _prose_figure(sentence: str, match: re.Match[str], name_words: frozenset[str]) -> Figure | None:
    value = _without_stop_words(match.group())
    unit = (match["unit"] or "").strip().lower()
    if BARE_YEAR.match(value) or unit in MONTHS or value.replace(",", "").isdigit():
        return None
    clause = CLAUSE_END.split(sentence[: match.start()])[-1]
    label = _counted_noun(value, unit, match) or _words_before(clause, name_words)
    if not label:
        return None
    year = IN_YEAR.match(sentence[match.start() + len(value) :])
    parts = [
        label,
        _production_verb(clause)
        if _counted_noun(value, unit, match)
        else _trend_word(clause, unit),
    ]
    return Figure(" ".join(filter(None, [*parts, year.group(1) if year else ""])), value)


def _without_stop_words(value: str) -> str:
    words = value.split(" ")
    while len(words) > 1 and words[-1].lower() in STOP_WORDS:
        words.pop()
    return " ".join(words)


def _counted_noun(value: str, unit: str, match: re.Match[str]) -> str:
    """The noun that is counted: after `of`, or a plural in the place of the unit."""
    _, of, noun = value.partition(" of ")
    if of:
        return noun
    is_plural = (
        (unit.endswith("s") or unit == "people") and unit.isalpha() and value.lower().endswith(unit)
    )
    return unit if is_plural and not match["money"] else ""


def _production_verb(clause: str) -> str:
    verb = next(
        (word for word in reversed(WORD.findall(clause)[-3:]) if word in PRODUCTION_VERBS), ""
    )
    return "employed" if verb == "employs" else verb


def _trend_word(clause: str, unit: str) -> str:
    """The trend word before a percentage, as in `Revenue rose`."""
    last = WORD.findall(clause)[-2:]
    moves = [word for word in last if is_trend_word(word) and not is_level_word(word)]
    return moves[-1] if moves and unit in {"%", "percent", "per cent"} else ""


def _words_before(clause: str, name_words: frozenset[str]) -> str:
    words = [
        word
        for word in (without_possessive(word) for word in WORD.findall(clause))
        if is_meaningful(word)
        and word not in name_words
        and word[0].isalpha()
        and (word[0].islower() or clause.lstrip().startswith(word))
        and not is_trend_word(word)
        and word.lower() not in REPORTING_VERBS
        and not word.endswith("ed")
    ]
    return " ".join(words[-LABEL_WORDS:])


AMOUNT = re.compile(
    rf"(?<![\w.])(?P<money>[-−]?(?:US)?[$€£¥]\s?)?(?P<number>{NUMBER})(?![\w-]|\.\d)\s?(?P<scale>{'|'.join(SCALES)})?\b\s?"
    r"(?P<unit>%|percent|per cent|[A-Za-z]+(?:/[a-z]+)*)?"
)
MAX_FIGURE_CHARS = 90
MAX_FIGURE_WORDS = 8
"""A value with more words, without remarks in brackets, is a sentence."""


@dataclass(frozen=True, slots=True)
class Amount:
    """The size of a figure. Amounts of the same unit are comparable."""

    number: float
    unit: str


def find_figures(sentence: str, names: Iterable[str] = ()) -> list[Figure]:
    """Find the figures of a sentence: the value of a labelled fact, or numbers with a unit in prose.

    `names` are the proper names in the sentence; labels do not contain them.
    """
    line = parse_label(sentence)
    return _labelled_figures(line) if line else find_prose_figures(sentence, names)


NOT_QUANTITY = re.compile(
    r"\b(?:19|20)\d\d-\d\d|\d[./-]\d{1,2}[./-]\d|\d+\.\d+\.\d+|\b\d{1,2}:\d\d\b|^\W*v?\d+\.\d+(?:rc|beta|alpha|b)\d*"
    r"|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? \d"
    r"|\d (?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)|^\W*(?:19|20)\d\d\W*$"
    r"|\+\d[\d ()-]{5,}|\(?\d{2,4}\)?[ -]\d{3}[ -]\d|\d\s?[–-]\s?\d|\d\s?(?:to|or)\s\d|\d/\d|\d x \d",
    re.IGNORECASE,
)
"""Dates, times, versions, telephone numbers, ranges and ratios, which have no single size."""
NOT_QUANTITY_LABELS = word_set(
    "address article bug call chapter code codes coordinate coordinates date day dialing dialling edition error fax figure "
    "founded id identifier isbn issn issue item latitude level line longitude month no number option page phone port "
    "priority rank ranking release revision rfc section serial signal standard step tel telephone time table uid version "
    "versions volume year zip zone"
)
"""Words of labels whose numbers name something and do not measure it."""


def is_quantity(label: str, value: str) -> bool:
    """Whether a labelled value measures something, so that it can be compared with another one."""
    own = REMARK.sub("", value)
    labelled = {word.lower() for word in WORD.findall(REMARK.sub("", label))}
    return labelled.isdisjoint(NOT_QUANTITY_LABELS) and NOT_QUANTITY.search(own) is None


def parse_amount(value: str) -> Amount | None:
    """Parse the first number of `value` and apply its scale: `$25.4 billion` is 25.4e9 of `$`."""
    match = AMOUNT.search(value)
    if not match:
        return None
    number = float(match["number"].replace(",", "").replace("−", "-"))
    money = (match["money"] or "").strip()
    negative = money.startswith(("-", "−"))
    scaled = number * SCALES.get(match["scale"] or "", 1.0) * (-1 if negative else 1)
    return Amount(scaled, money.lstrip("-−").removeprefix("US") or _unit(match["unit"]))


def _unit(unit: str | None) -> str:
    if unit in {"percent", "per cent"}:
        return "%"
    return "" if unit is None or unit.lower() in STOP_WORDS else unit


def _without_open_bracket(value: str) -> str:
    """Remove an open bracket without its end."""
    is_open = value.count("(") > value.count(")")
    return (value[: value.rindex("(")] if is_open else value).strip()


def _labelled_figures(line: LabelLine) -> list[Figure]:
    value = _without_open_bracket(line.value.split(";")[0])
    is_prose = len(REMARK.sub("", value).split()) > MAX_FIGURE_WORDS
    if not line.has_figure or line.is_note or is_prose or len(value) > MAX_FIGURE_CHARS:
        return []
    return [Figure(line.label, value)]
