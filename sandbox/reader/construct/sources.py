"""The document of a graph construction request, read back into its sources."""

import re
from dataclasses import dataclass

from sandbox.text.sentences import sentences

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
    """What one page says, as far as the document tells it."""

    title: str
    url: str
    published: str
    sentences: tuple[str, ...]

    @property
    def stated_subject(self) -> str:
        """The subject of a title such as `Ghana: Economy`; empty for other titles."""
        match = COLON_TITLE.match(self.title)
        return (
            match["subject"] if match and len(match["subject"].split()) <= MAX_SUBJECT_WORDS else ""
        )


def parse_sources(document: str) -> list[Source]:
    """A part under each heading that has sentences; addresses and dates apply to their own part."""
    parts = _parts(document)
    found = [_source(title, body) for title, body in parts]
    return [source for source in found if source.sentences]


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
    text = PUBLISHED.sub("", SOURCE.sub("", body))
    kept = tuple(one for one in sentences(text) if not _says_nothing(one))
    return Source(
        title,
        address.group(address.lastindex or 0) if address else "",
        published.group(1).strip() if published else "",
        kept,
    )


def _says_nothing(sentence: str) -> bool:
    return (
        len(sentence) < 12
        or sentence.startswith(("Nothing was found", "Note: "))
        or bool(ADDRESS.fullmatch(sentence))
    )
