"""Labelled facts: lines such as `Exports 2023: $25 billion` or `Ghana — Imports: refined petroleum, cars`."""

import re
from dataclasses import dataclass

from sandbox.text.word_set import word_set
from sandbox.text.words import STOP_WORDS

LINE = re.compile(
    r"^(?:(?P<subject>[^:—–]{2,70}?) [—–] )?(?P<label>[^:.;!?]{2,90}): (?P<value>\S.*)$", re.DOTALL
)
STARTS_WITH_FIGURE = re.compile(
    r"^(?:(?:less|more|fewer) than |about |approximately |nearly |over |under |up to |at least )?[-−~]?\s?[$€£¥]?\s?\d",
    re.IGNORECASE,
)
NO_ITEM = word_set("different mixed none other others several unknown unspecified various")
"""Entries that begin so name nothing."""
YEAR = re.compile(r"\b(?:19|20)\d\d\b")
REMARK = re.compile(r"\s*\([^()]*\)")
ITEM_FIGURE = re.compile(r"^(?P<name>.*?)\s+(?P<figure>[-−]?[$€£]?\d[\d.,]*\s*(?:%|km|[a-z]+)?)$")
MAX_LABEL_WORDS = 14
MAX_ITEM_WORDS = 4


@dataclass(frozen=True, slots=True)
class LabelLine:
    """One fact and what it is called. `subject` is None where the line does not name whom it is about."""

    subject: str | None
    label: str
    value: str

    @property
    def key(self) -> str:
        """The label without its year, by which facts of different years and subjects are alike."""
        return " ".join(YEAR.sub("", self.label).split()).strip(" ,-")

    @property
    def is_note(self) -> bool:
        """A remark on how a fact was counted is no fact."""
        return self.label.lower().endswith("note")

    @property
    def has_figure(self) -> bool:
        """Whether the value is a number with its unit."""
        return STARTS_WITH_FIGURE.match(self.value) is not None


@dataclass(frozen=True, slots=True)
class ListItem:
    """One entry of a list and the figure beside it, as in `Switzerland 24%`."""

    name: str
    figure: str


def parse_label(sentence: str) -> LabelLine | None:
    """The fact a line states; None for prose. Without a subject only a figure or a list makes it a labelled fact."""
    match = LINE.match(sentence)
    if not match or len(match["label"].split()) > MAX_LABEL_WORDS:
        return None
    line = LabelLine(match["subject"], match["label"].strip(), match["value"].strip().rstrip("."))
    return line if line.subject or line.has_figure or len(list_items(line)) >= 2 else None


def list_items(line: LabelLine) -> list[ListItem]:
    """The entries of a value that is a list of short names; empty where it is prose or a figure."""
    value = REMARK.sub("", line.value)
    if line.has_figure or line.is_note:
        return []
    items = [_item(part) for part in re.split(r"[;,]", value) if part.strip()]
    if "," in value and ";" in value and not all(_is_short(item) for item in items):
        items = [_item(part) for part in value.split(";") if part.strip()]
    return [item for item in items if _names(item)] if all(map(_is_short, items)) else []


def _is_short(item: ListItem) -> bool:
    return 0 < len(item.name.split()) <= MAX_ITEM_WORDS and ":" not in item.name


def _names(item: ListItem) -> bool:
    """A small word at the start or a number within make a fragment: `less than`, `other metals`."""
    first = item.name.split()[0]
    leads_on = first[0].islower() and (first in STOP_WORDS or first in NO_ITEM)
    return not leads_on and not any(character.isdigit() for character in item.name)


def _item(text: str) -> ListItem:
    text = text.strip().removeprefix("and ")
    match = ITEM_FIGURE.match(text)
    return ListItem(match["name"].strip(), match["figure"].strip()) if match else ListItem(text, "")
