"""The sources of a document, and the names in them that may become nodes."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sandbox.text.english import is_plural, singular
from sandbox.text.names import NameFinder, find_whole_name
from sandbox.text.sentences import (
    LabelLine,
    list_items,
    numbered_sentences,
    parse_label,
    sentences,
    without_numbers,
)
from sandbox.text.tokens import fold, word_set

HEADING = re.compile(r"^#{1,6}\s+(.*\S)\s*$", re.MULTILINE)
SOURCE = re.compile(
    r"^\W*(?:Source|URL|Link)\W*[:\s]\W*<?(https?://[^\s>)\]]+)", re.IGNORECASE | re.MULTILINE
)
PUBLISHED = re.compile(
    r"^\W*(?:Published|Date)\W*:\W*(\d{4}-\d{2}-\d{2}\S*|[^\n*]+)", re.IGNORECASE | re.MULTILINE
)
ADDRESS = re.compile(r"https?://[^\s>)\]]+")
COLON_TITLE = re.compile(r"^(?P<subject>[^:]{2,60}): \S")
MAX_SUBJECT_WORDS = 6


@dataclass(frozen=True, slots=True)
class Source:
    """The content of a page, as the document states it."""

    title: str
    url: str
    published: str
    sentences: tuple[str, ...]
    numbers: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The number of each sentence, by which evidence cites it."""

    @property
    def stated_subject(self) -> str:
        """The subject in a title such as `Ghana: Economy`; empty for other titles."""
        match = COLON_TITLE.match(self.title)
        return (
            match["subject"] if match and len(match["subject"].split()) <= MAX_SUBJECT_WORDS else ""
        )


def parse_sources(document: str) -> list[Source]:
    """Parse the sources: one for each heading with sentences, with its URL and date."""
    parts = _parts(document)
    sources = [_source(title, body) for title, body in parts]
    return [source for source in sources if source.sentences]


def _parts(document: str) -> list[tuple[str, str]]:
    headings = list(HEADING.finditer(document))
    if not headings:
        return [("", document)]
    ends = [heading.start() for heading in headings[1:]] + [len(document)]
    return [
        (heading.group(1), document[heading.end() : end])
        for heading, end in zip(headings, ends, strict=True)
    ]


def _source(title: str, body: str) -> Source:
    address = SOURCE.search(body) or ADDRESS.search(body)
    published = PUBLISHED.search(body)
    numbered = PUBLISHED.sub("", SOURCE.sub("", body))
    text = without_numbers(numbered)
    sentences_to_keep = tuple(
        sentence for sentence in sentences(text) if not _is_empty_sentence(sentence)
    )
    return Source(
        title,
        address.group(address.lastindex or 0) if address else "",
        published.group(1).strip() if published else "",
        sentences_to_keep,
        numbered_sentences(numbered),
    )


def _is_empty_sentence(sentence: str) -> bool:
    return (
        len(sentence) < 12
        or sentence.startswith(("Nothing relevant was found", "Note: "))
        or bool(ADDRESS.fullmatch(sentence))
    )


PEER_WORDS = word_set(
    """
    allies clients competitors customers neighbors neighbours partners peers rivals suppliers
    """
)
"""Labels of lists whose entries are of the same type as the subject."""

RELATIONAL_WORDS = word_set(
    """
    analysis basis branches challenges class details developments examples figures forces groups
    hazards highlights issues keys links members names news notes others plans references series
    sources statistics status terms topics weaknesses strengths
    """
)
"""Nouns that state a relation to the subject, and not a type."""

LAST_WORD = re.compile(r"\w+$")
SEGMENTS = re.compile(r",\s|\s-\s")
MIN_NOUN_CHARS = 4
MEASURE = re.compile(r"\bper\b|\d|\bcoordinates\b", re.IGNORECASE)
"""Labels of measurements, not of lists."""


def lists_peers(label: str) -> bool:
    """Whether the entries have the subject's type: `Imports - partners` of a country are countries."""
    return _head(label) in PEER_WORDS


def kind_of_entries(label: str) -> str:
    """The type of the entries: `Natural resources` gives `Resource`; empty if the label ends with no plural noun."""
    head = _head(label)
    if (
        lists_peers(label)
        or MEASURE.search(label)
        or head in RELATIONAL_WORDS
        or not head.endswith("s")
        or len(head) < MIN_NOUN_CHARS
    ):
        return ""
    kind = singular(head)
    return kind if kind.isalpha() and kind.lower() != head else ""


def _head(label: str) -> str:
    match = LAST_WORD.search(SEGMENTS.split(label)[-1].strip())
    return match.group().lower() if match else ""


MAX_SMALL_ITEMS = 4
"""Maximal number of common nouns from one list."""
MAX_TITLE_WORDS = 4
MIN_LONG_TERM_WORDS = 3
OWN_FIGURE = re.compile(
    r"(?:Its|The (?:company|firm|group|bank|country|agency)|It|Revenue|Sales|Turnover|Profit|Net profit|Earnings|Output"
    r"|Production|Capacity|Orders|Shipments|Deliveries)\b"
)
"""Starts of sentences about the source's subject that do not name it."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A sentence that mentions a name."""

    source: Source
    sentence: str
    line: LabelLine | None = None
    """The labelled fact in the sentence; its subject defaults to that of the source."""
    is_listed: bool = False
    """Whether the name is an entry of the fact's list, with `figure` beside it."""
    figure: str = ""
    has_title: bool = False
    """Whether a title of office or courtesy precedes the name."""


@dataclass(slots=True)
class Candidate:
    """A name that may become a node. `subject_of`: sources that are about it."""

    name: str
    subject_of: list[Source] = field(default_factory=list)
    mentions: list[Mention] = field(default_factory=list)
    longer_names: frozenset[str] = frozenset()
    """Longer names that contain this one."""

    @property
    def is_subject(self) -> bool:
        return bool(self.subject_of)

    def named_mentions(self) -> list[Mention]:
        """The mentions whose sentence contains the name literally."""
        return [mention for mention in self.mentions if self.position_in(mention.sentence) >= 0]

    def position_in(self, sentence: str) -> int:
        """The first position of the name, not inside a longer name; -1 if none."""
        return find_whole_name(self.name, sentence, self.longer_names)


def find_candidates(sources: list[Source], terms: Sequence[str] = ()) -> dict[str, Candidate]:
    """Find candidates by folded name: subjects of sources first, then in order of mention.

    `terms` are common nouns that are candidates too, where sentences have them word for word.
    """
    terms = _terms_in(sources, terms)
    finder = _finder(sources)
    subjects = [_subject(source, finder) for source in sources]
    candidates: dict[str, Candidate] = {}
    for source, subject in zip(sources, subjects, strict=True):
        if subject:
            candidates.setdefault(fold(subject), Candidate(subject)).subject_of.append(source)
    for source, subject in zip(sources, subjects, strict=True):
        for sentence in source.sentences:
            line = _line(sentence, subject)
            for name, mention in _mentions(source, sentence, line, finder):
                candidates.setdefault(fold(name), Candidate(name)).mentions.append(mention)
            for term in terms if line is None else ():
                if find_whole_name(term, sentence) >= 0:
                    mention = Mention(source, sentence)
                    candidates.setdefault(fold(term), Candidate(term)).mentions.append(mention)
            _mention_subjects(candidates, source, sentence, line, finder)
            if subject and OWN_FIGURE.match(sentence) and not finder.find(sentence):
                candidates[fold(subject)].mentions.append(Mention(source, sentence, line))
    for candidate in candidates.values():
        candidate.longer_names |= _longer_names(
            candidate.name, (longer.name for longer in candidates.values())
        )
    named_candidates = {
        key: candidate for key, candidate in candidates.items() if candidate.named_mentions()
    }
    short = {_initials(candidate.name) for candidate in named_candidates.values()} | _surnames(
        named_candidates.values()
    )
    return {
        key: candidate
        for key, candidate in named_candidates.items()
        if candidate.is_subject or candidate.name not in short
    }


def _terms_in(sources: list[Source], terms: Sequence[str]) -> list[str]:
    """The terms that occur; of one that does not, such as `packages built` or `teams share branches`, its plural nouns."""
    text = "\n".join(sentence for source in sources for sentence in source.sentences)
    occurring: list[str] = []
    for term in terms:
        if find_whole_name(term, text) >= 0:
            occurring.append(term)
        elif len(term.split()) >= MIN_LONG_TERM_WORDS or not is_plural(term):
            occurring += [word for word in term.split() if is_plural(word)]
    return list(dict.fromkeys(occurring))


def _longer_names(name: str, names: Iterable[str]) -> frozenset[str]:
    return frozenset(longer for longer in names if name in longer and name != longer)


def _initials(name: str) -> str:
    """The initials of `International Monetary Fund`; empty for a single word."""
    words = [word for word in name.split() if word[0].isupper()]
    return "".join(word[0] for word in words) if len(words) > 1 else ""


def _surnames(candidates: Iterable[Candidate]) -> set[str]:
    """The capitalised surnames of persons with a full name."""
    last = {candidate.name.split()[-1] for candidate in candidates if " " in candidate.name}
    return {name for name in last if name.isupper() and len(name) > 2}


def _finder(sources: list[Source]) -> NameFinder:
    short_titles = [source.title for source in sources if _is_short(source.title)]
    stated = [source.stated_subject for source in sources if source.stated_subject]
    return NameFinder(("\n".join(source.sentences) for source in sources), [*stated, *short_titles])


def _subject(source: Source, finder: NameFinder) -> str:
    """The subject of a source: from the title, else the first name in the title or at the start."""
    if source.stated_subject:
        return source.stated_subject
    with_name = [
        (source.title.find(name.text), -len(name.text), name.text)
        for sentence in source.sentences
        for name in finder.find(sentence)
        if name.text in source.title
    ]
    if with_name:
        return min(with_name)[2]
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
            yield name.text, Mention(source, sentence, line, has_title=name.has_title)


def _mention_subjects(
    candidates: dict[str, Candidate],
    source: Source,
    sentence: str,
    line: LabelLine | None,
    finder: NameFinder,
) -> None:
    """Add mentions of subjects: sentences with the name, and labelled facts on it."""
    names = [name.text for name in finder.find(sentence)]
    for candidate in candidates.values():
        candidate.longer_names |= _longer_names(candidate.name, names)
        is_mentioned = candidate.position_in(sentence) >= 0 or (
            line is not None and line.subject == candidate.name
        )
        if (
            candidate.is_subject
            and is_mentioned
            and sentence not in {mention.sentence for mention in candidate.mentions}
        ):
            candidate.mentions.append(Mention(source, sentence, line))


def _is_short(title: str) -> bool:
    return 0 < len(title.split()) <= MAX_TITLE_WORDS
