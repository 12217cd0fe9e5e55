"""Amounts: the size and unit of a labelled figure, so that figures can be compared."""

import re
from dataclasses import dataclass

from sandbox.text.labels import REMARK
from sandbox.text.tokens import STOP_WORDS, WORD, WORD_LISTS

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
AMOUNT = re.compile(
    rf"(?<![\w.,])(?P<money>[-−]?(?:US)?[$€£¥]\s?)?(?P<number>{NUMBER})(?![\w-]|[.,]\d)\s?(?P<scale>{'|'.join(SCALES)})?\b\s?"
    r"(?P<unit>%|percent|per cent|[A-Za-z]+(?:/[a-z]+)*)?"
)


@dataclass(frozen=True, slots=True)
class Amount:
    """The size of a figure. Amounts of the same unit are comparable."""

    number: float
    unit: str


def parse_amount(value: str) -> Amount | None:
    """Parse the first number of `value` and apply its scale: `$25.4 billion` is 25.4e9 of `$`."""
    match = AMOUNT.search(value)
    if not match:
        return None
    number = float(match["number"].replace(",", "").replace("−", "-"))
    money, unit = (match["money"] or "").strip(), match["unit"] or ""
    scaled = number * SCALES.get(match["scale"] or "", 1.0)
    if unit in {"percent", "per cent"}:
        unit = "%"
    elif unit.lower() in STOP_WORDS:
        unit = ""
    return Amount(
        -scaled if money.startswith(("-", "−")) else scaled,
        money.lstrip("-−").removeprefix("US") or unit,
    )


NOT_QUANTITY = re.compile(
    r"\b(?:19|20)\d\d-\d\d|\d[./-]\d{1,2}[./-]\d|\d+\.\d+\.\d+|\b\d{1,2}:\d\d\b|^\W*v?\d+\.\d+(?:rc|beta|alpha|b)\d*"
    r"|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? \d"
    r"|\d (?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)|^\W*(?:19|20)\d\d\W*$"
    r"|\+\d[\d ()-]{5,}|\(?\d{2,4}\)?[ -]\d{3}[ -]\d|\d\s?[–-]\s?\d|\d\s?(?:to|or)\s\d|\d/\d|\d x \d",
    re.IGNORECASE,
)
"""Dates, times, versions, telephone numbers, ranges and ratios, which have no single size."""
NOT_QUANTITY_LABELS = WORD_LISTS["not_quantity_labels"]
"""Words of labels whose numbers name something and do not measure it."""


def is_quantity(label: str, value: str) -> bool:
    """Whether a labelled value measures something, so that it can be compared with another one."""
    labelled = {word.lower() for word in WORD.findall(REMARK.sub("", label))}
    return labelled.isdisjoint(NOT_QUANTITY_LABELS) and not NOT_QUANTITY.search(
        REMARK.sub("", value)
    )
