"""Sentences, labelled facts such as `Exports 2023: $25 billion`, and words that state a trend."""

import re
from dataclasses import dataclass

from sandbox.text.tokens import STOP_WORDS, word_set

ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|Sr|Jr|St|Mt|Lt|Gen|Col|Sgt|Capt|Gov|Sen|Rep|Hon|Inc|Ltd|Co|Corp|Bros|No|vs|cf|ca"
    r"|approx|est|e\.g|i\.e|etc|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|U\.S|U\.K|a\.m|p\.m)|\b[A-Z])\.$"
)
MAX_ABBREVIATION_CHARS = 12
"""More than the longest, with the character before it."""
END = re.compile(r"[.!?][\"'”’)\]]*\s+(?=[\"'“‘(\[]?[^\W_a-zß-ÿ])")
LIST_MARK = re.compile(r"^\s*(?:[-*+•>]|\d{1,3}[.)]|#{1,6})\s+")
MAX_SENTENCE_CHARS = 320
"""A longer sentence is split at its semicolons."""


def sentences(text: str) -> list[str]:
    """All sentences and headings, as literal parts of `text`. A line end also ends a sentence."""
    return [part for line in text.splitlines() for part in line_sentences(line)]


NUMBER = re.compile(r"^\s*\[(\d+\.\d+)\]\s*")
"""Before a numbered sentence of a page: `[2.3] sentence`."""


def numbered_sentences(text: str) -> dict[str, str]:
    """The number of each sentence of a text whose lines are numbered; lines without a number are left out."""
    numbers: dict[str, str] = {}
    for line in text.splitlines():
        if match := NUMBER.match(line):
            for sentence in line_sentences(line[match.end() :]):
                numbers.setdefault(sentence, match[1])
    return numbers


def without_numbers(text: str) -> str:
    """`text` without the numbers of its sentences."""
    return "\n".join(NUMBER.sub("", line) for line in text.splitlines())


def line_sentences(line: str) -> list[str]:
    """The sentences of one line, without its list or heading mark."""
    line = LIST_MARK.sub("", line).strip()
    return [piece for part in _cut_at_ends(line) for piece in _cut_if_long(part)]


def _cut_at_ends(line: str) -> list[str]:
    parts: list[str] = []
    start = 0
    for end in END.finditer(line):
        piece = line[start : end.end()].rstrip()
        if not ABBREVIATION.search(piece[-MAX_ABBREVIATION_CHARS:]):
            parts.append(piece)
            start = end.end()
    return [part for part in [*parts, line[start:].strip()] if part]


def _cut_if_long(sentence: str) -> list[str]:
    if len(sentence) <= MAX_SENTENCE_CHARS or "; " not in sentence:
        return [sentence]
    pieces = [""]
    for clause in sentence.split("; "):
        if pieces[-1] and len(pieces[-1]) + len(clause) + len("; ") > MAX_SENTENCE_CHARS:
            pieces.append(clause)
        else:
            pieces[-1] = f"{pieces[-1]}; {clause}" if pieces[-1] else clause
    return pieces


CODE = re.compile(
    r"``|`_|[→⇒│]|(?<!\w)[*_]\w[^*_]*[*_](?!\w)|:\w+:`|\]_|\[#|[{}]|</|/>|<\w+>|::|->|=>|[=!<>+]=|&&|\|\||\$\("
    r"|\$[A-Za-z_]|\\\w|\w\(\)?[^)]*\);?$|;$|^\s*(?:[#>%]|\$ )|^\W*--?\w|\w=\S|\.\.\.$|^\.\. |\w_\w*_\w|[A-Z]{2,}_[A-Z]"
    r"|\|.*\|"
)
"""Signs of program code, commands, markup and option lists."""
NUMBERED_HEADING = re.compile(r"\d+(?:\.\d+)+\.?\s")
SENTENCE_END = re.compile(r"[.!?:][\"'”’)\]]*$")
MIN_PROSE_WORDS = 3
MIN_WORDS_WITH_STOP_WORD = 7
"""A sentence of this length without a stop word is a list of words."""
MIN_LETTER_SHARE = 0.72
MIN_HEADLINE_WORDS = 5
MAX_CAPITAL_SHARE = 0.6


def is_prose(sentence: str) -> bool:
    """Whether it is a whole sentence of running text, and not a heading, a menu, code or a fragment."""
    words = sentence.split()
    if len(words) < MIN_PROSE_WORDS or CODE.search(sentence) or NUMBERED_HEADING.match(sentence):
        return False
    if not SENTENCE_END.search(sentence) and not _is_headline(words):
        return False
    if not (sentence[0].isupper() or sentence[0].isdigit() or sentence[0] in "\"“‘'("):
        return "—" in sentence
    letters = sum(character.isalnum() or character.isspace() for character in sentence)
    has_stop_word = any(word.lower() in STOP_WORDS for word in words)
    return letters >= MIN_LETTER_SHARE * len(sentence) and (
        has_stop_word or len(words) < MIN_WORDS_WITH_STOP_WORD
    )


def _is_headline(words: list[str]) -> bool:
    """Whether the words say something, as in `Oriol Maritime cuts a service`, and are not those of a heading or menu."""
    capitals = sum(word[0].isupper() for word in words)
    return (
        len(words) >= MIN_HEADLINE_WORDS
        and capitals < MAX_CAPITAL_SHARE * len(words)
        and any(word in STOP_WORDS for word in words)
    )


LINE = re.compile(
    r"^(?:(?P<subject>[^:—–]{2,70}?) [—–] )?(?P<label>[^:.;!?]{2,90}): (?P<value>\S.*)$", re.DOTALL
)
STARTS_WITH_FIGURE = re.compile(
    r"^(?:(?:less|more|fewer) than |about |approximately |nearly |over |under |up to |at least )?[-−~]?\s?[$€£¥]?\s?\d",
    re.IGNORECASE,
)
NO_ITEM = word_set("different mixed none other others several unknown unspecified various")
"""Entries that start with these are not names."""
YEAR = re.compile(r"\b(?:19|20)\d\d\b")
REMARK = re.compile(r"\s*\([^()]*\)")
ITEM_FIGURE = re.compile(r"^(?P<name>.*?)\s+(?P<figure>[-−]?[$€£]?\d[\d.,]*\s*(?:%|km|[a-z]+)?)$")
LIST_SIGN = re.compile(r";|,(?!\d{3}\b)")
"""What separates the entries of a list; the comma in "1,468" does not."""
MAX_LABEL_WORDS = 14
MAX_ITEM_WORDS = 4


@dataclass(frozen=True, slots=True)
class LabelLine:
    """A fact and its label. `subject` is None if the line does not state one."""

    subject: str | None
    label: str
    value: str

    @property
    def key(self) -> str:
        """The label without its year: the same for facts of different years and subjects."""
        return " ".join(YEAR.sub("", self.label).split()).strip(" ,-")

    @property
    def is_note(self) -> bool:
        """Whether it is a remark on how a fact was counted, and not a fact."""
        return self.label.lower().endswith("note")

    @property
    def has_figure(self) -> bool:
        """Whether the value is a number with its unit."""
        return STARTS_WITH_FIGURE.match(self.value) is not None


@dataclass(frozen=True, slots=True)
class ListItem:
    """An entry of a list with the figure beside it, as in `Switzerland 24%`."""

    name: str
    figure: str


def parse_label(sentence: str) -> LabelLine | None:
    """Parse a labelled fact; None for prose. Without a subject, the value must be a figure or a list."""
    match = LINE.match(sentence)
    if not match or len(match["label"].split()) > MAX_LABEL_WORDS:
        return None
    line = LabelLine(match["subject"], match["label"].strip(), match["value"].strip().rstrip("."))
    return line if line.subject or line.has_figure or len(list_items(line)) >= 2 else None


def list_items(line: LabelLine) -> list[ListItem]:
    """The entries of a value that is a list of short names; empty if it is prose or a figure."""
    value = REMARK.sub("", line.value)
    if line.has_figure or line.is_note:
        return []
    items = [_item(part) for part in LIST_SIGN.split(value) if part.strip()]
    if "," in value and ";" in value and not all(_is_short(item) for item in items):
        items = [_item(part) for part in value.split(";") if part.strip()]
    return [item for item in items if _is_name(item)] if all(map(_is_short, items)) else []


def _is_short(item: ListItem) -> bool:
    return 0 < len(item.name.split()) <= MAX_ITEM_WORDS and ":" not in item.name


def _is_name(item: ListItem) -> bool:
    """Whether an entry is a name, and not a fragment such as `less than` or `other metals`."""
    first = item.name.split()[0]
    leads_on = first[0].islower() and (first in STOP_WORDS or first in NO_ITEM)
    return not leads_on and not any(character.isdigit() for character in item.name)


def _item(text: str) -> ListItem:
    text = text.strip().removeprefix("and ")
    match = ITEM_FIGURE.match(text)
    return ListItem(match["name"].strip(), match["figure"].strip()) if match else ListItem(text, "")


RISING = word_set(
    """
    accelerate accelerated accelerating boost boosted climb climbed climbing doubled exceed exceeded
    expand expanded expanding expansion gain gained gains grew grow growing grown growth higher
    improve improved improving increase increased increases increasing jump jumped rise risen rises
    rising rose soar soared strengthened surge surged tripled up
    """
)
FALLING = word_set(
    """
    collapse collapsed contract contracted contraction cut decline declined declines declining
    decrease decreased decreases decreasing down drop dropped drops fall fallen falling falls fell
    halved lose losing loss losses lost lower plunge plunged reduced shrank shrink shrinking slowed
    slump slumped tumbled weaken weakened worsened
    """
)
LEVEL = word_set(
    "amounted averaged hit reach reached remained stand stands stood total totaled totalled"
)
LOWER_WORD = re.compile(r"[a-z]+")


def is_trend_word(word: str) -> bool:
    """Whether a word states a trend or level, and not what is counted."""
    return word.lower() in RISING | FALLING | LEVEL


def count_trends(text: str) -> tuple[int, int]:
    """Count the rising and the falling words in `text`."""
    words = LOWER_WORD.findall(text.lower())
    return sum(word in RISING for word in words), sum(word in FALLING for word in words)


def is_level_word(word: str) -> bool:
    """Whether a word states a level without a direction."""
    return word.lower() in LEVEL
