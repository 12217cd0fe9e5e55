"""The names a document speaks of, with the sentences that speak of them."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from sandbox.reader.construct.entries import kind_of_entries, lists_peers
from sandbox.reader.construct.sources import Source
from sandbox.text.labels import LabelLine, list_items, parse_label
from sandbox.text.names import NameFinder
from sandbox.text.whole import place_of
from sandbox.text.words import fold

MAX_SMALL_ITEMS = 4
"""Of a list of common nouns, so many become candidates."""
MAX_TITLE_WORDS = 4
OWN_FIGURE = re.compile(
    r"(?:Its|The (?:company|firm|group|bank|country|agency)|It|Revenue|Sales|Turnover|Profit|Net profit|Earnings|Output"
    r"|Production|Capacity|Orders|Shipments|Deliveries)\b"
)
"""How sentences begin that speak of their source's subject without its name."""


@dataclass(frozen=True, slots=True)
class Mention:
    """One sentence that speaks of a name."""

    source: Source
    sentence: str
    line: LabelLine | None = None
    """The labelled fact that the sentence states; its subject is the source's where it names none."""
    listed: bool = False
    """Whether the name is an entry of that fact's list, with `figure` beside it."""
    figure: str = ""
    titled: bool = False
    """Whether a title of office or courtesy stands before the name."""


@dataclass(slots=True)
class Candidate:
    """A name that may become a node. `subject_of`: the sources that are about it as a whole."""

    name: str
    subject_of: list[Source] = field(default_factory=list)
    mentions: list[Mention] = field(default_factory=list)
    others: frozenset[str] = frozenset()
    """Names that hold this one and are of something else."""

    @property
    def is_subject(self) -> bool:
        """Whether any source is about it."""
        return bool(self.subject_of)

    def named_mentions(self) -> list[Mention]:
        """Those whose sentence holds the name, letter by letter."""
        return [mention for mention in self.mentions if self.place_in(mention.sentence) >= 0]

    def place_in(self, sentence: str) -> int:
        """Where its name stands first, and not another's that holds it; -1 where nowhere."""
        return place_of(self.name, sentence, self.others)


def find_candidates(sources: list[Source]) -> dict[str, Candidate]:
    """By their name in lower case without accents; subjects of sources first, then as they come."""
    finder = _finder(sources)
    subjects = [_subject(source, finder) for source in sources]
    found: dict[str, Candidate] = {}
    for source, subject in zip(sources, subjects, strict=True):
        if subject:
            found.setdefault(fold(subject), Candidate(subject)).subject_of.append(source)
    for source, subject in zip(sources, subjects, strict=True):
        for sentence in source.sentences:
            line = _line(sentence, subject)
            for name, mention in _mentions(source, sentence, line, finder):
                found.setdefault(fold(name), Candidate(name)).mentions.append(mention)
            _mention_subjects(found, source, sentence, line, finder)
            if subject and OWN_FIGURE.match(sentence) and not finder.find(sentence):
                found[fold(subject)].mentions.append(Mention(source, sentence, line))
    for candidate in found.values():
        candidate.others |= _holding(candidate.name, (one.name for one in found.values()))
    named = {key: one for key, one in found.items() if one.named_mentions()}
    short = {_initials(one.name) for one in named.values()} | _surnames(named.values())
    return {key: one for key, one in named.items() if one.is_subject or one.name not in short}


def _holding(name: str, names: Iterable[str]) -> frozenset[str]:
    return frozenset(each for each in names if name in each and name != each)


def _initials(name: str) -> str:
    """What `International Monetary Fund` is called for short; empty for a single word."""
    words = [word for word in name.split() if word[0].isupper()]
    return "".join(word[0] for word in words) if len(words) > 1 else ""


def _surnames(candidates: Iterable[Candidate]) -> set[str]:
    """The last names of those that are also named in full, where capitals mark them."""
    last = {one.name.split()[-1] for one in candidates if " " in one.name}
    return {name for name in last if name.isupper() and len(name) > 2}


def _finder(sources: list[Source]) -> NameFinder:
    short_titles = [source.title for source in sources if _is_short(source.title)]
    stated = [source.stated_subject for source in sources if source.stated_subject]
    return NameFinder(("\n".join(source.sentences) for source in sources), [*stated, *short_titles])


def _subject(source: Source, finder: NameFinder) -> str:
    """Whom a source is about: as its title says, else the first name that the title holds, or the name it begins with."""
    if source.stated_subject:
        return source.stated_subject
    named = [
        (source.title.find(name.text), -len(name.text), name.text)
        for sentence in source.sentences
        for name in finder.find(sentence)
        if name.text in source.title
    ]
    if named:
        return min(named)[2]
    if _is_short(source.title) and any(source.title in sentence for sentence in source.sentences):
        return source.title
    opening = [name for name in finder.find(source.sentences[0]) if name.start == 0]
    return opening[0].text if opening else ""


def _line(sentence: str, subject: str) -> LabelLine | None:
    line = parse_label(sentence)
    return replace(line, subject=line.subject or subject or None) if line else None


def _mentions(
    source: Source, sentence: str, line: LabelLine | None, finder: NameFinder
) -> Iterator[tuple[str, Mention]]:
    items = list_items(line) if line else []
    if line and items:
        if lists_peers(line.key) or kind_of_entries(line.key):
            small = 0
            for item in items:
                small += item.name[0].islower()
                if not item.name[0].islower() or small <= MAX_SMALL_ITEMS:
                    yield item.name, Mention(source, sentence, line, True, item.figure)
        return
    for name in finder.find(sentence):
        in_label = line is not None and name.end <= sentence.find(line.value)
        if not in_label:
            yield name.text, Mention(source, sentence, line, titled=name.titled)


def _mention_subjects(
    found: dict[str, Candidate],
    source: Source,
    sentence: str,
    line: LabelLine | None,
    finder: NameFinder,
) -> None:
    """A subject is mentioned by every sentence that holds its name, and by every labelled fact on it."""
    names = [name.text for name in finder.find(sentence)]
    for candidate in found.values():
        candidate.others |= _holding(candidate.name, names)
        told = candidate.place_in(sentence) >= 0 or (
            line is not None and line.subject == candidate.name
        )
        if (
            candidate.is_subject
            and told
            and sentence not in {one.sentence for one in candidate.mentions}
        ):
            candidate.mentions.append(Mention(source, sentence, line))


def _is_short(title: str) -> bool:
    return 0 < len(title.split()) <= MAX_TITLE_WORDS
