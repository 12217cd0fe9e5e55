"""What the entries of a labelled list are, told by the noun that its label ends with."""

import re

from sandbox.reader.construct.kind_words import PEER_WORDS, RELATIONAL_WORDS
from sandbox.text.english import singular

LAST_WORD = re.compile(r"\w+$")
SEGMENTS = re.compile(r",\s|\s-\s")
MIN_NOUN_CHARS = 4
MEASURE = re.compile(r"\bper\b|\d|\bcoordinates\b", re.IGNORECASE)
"""Such a label says in what something is measured, and lists nothing."""


def lists_peers(label: str) -> bool:
    """Whether the entries are of their subject's kind: `Imports - partners` of a country are countries."""
    return _head(label) in PEER_WORDS


def kind_of_entries(label: str) -> str:
    """`Natural resources` lists things of the type Resource; empty where the label does not end with a plural noun."""
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
