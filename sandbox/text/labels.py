"""Labelled facts: lines such as `Exports 2023: $25 billion` or `Ghana — Imports: refined petroleum, cars`."""

import re
from dataclasses import dataclass

LINE = re.compile(
    r"^(?:(?P<subject>[^:—–]{2,70}?) [—–] )?(?P<label>[^:.;!?]{2,90}): (?P<value>\S.*)$", re.DOTALL
)
STARTS_WITH_FIGURE = re.compile(r"^[-−~]?\s?[$€£¥]?\s?\d")
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
    separator = ";" if ";" in value else ","
    items = [_item(part.strip()) for part in value.split(separator) if part.strip()]
    short = all(
        0 < len(item.name.split()) <= MAX_ITEM_WORDS and ":" not in item.name for item in items
    )
    return items if items and short else []


def _item(text: str) -> ListItem:
    match = ITEM_FIGURE.match(text)
    return ListItem(match["name"].strip(), match["figure"].strip()) if match else ListItem(text, "")
