"""In what ways a link of the chain from advice to page can be broken."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID

from shared.store.words import ADVICE_TYPE, ANALYSIS_TYPE


class Link(StrEnum):
    """What a chain is made of."""

    ADVICE = "advice"
    ANALYSIS = "analysis"
    NODE = "node"
    EDGE = "edge"
    EVIDENCE = "evidence"
    SOURCE = "source"


class Broken(StrEnum):
    SEAL = "seal"
    """The row was changed since it was sealed."""
    UNPROVEN = "unproven"
    """Nothing speaks for it: neither evidence nor a seal."""
    ID = "id"
    """The id is not the one that follows from the row."""
    TEXT = "text"
    """A page's text is another."""
    SPAN = "span"
    """A span leads beyond its page, or through the middle of a character."""
    QUOTE = "quote"
    """What stands at the span is something else."""
    SOURCE = "source"
    """The page is not there."""
    PROPERTY = "property"
    """A property is not what follows from the evidence."""
    END = "end"
    """An edge's end is not there."""
    CITATION = "citation"
    """What is cited is not there, is of the wrong kind, or cannot be read."""
    RETRACTED = "retracted"
    """What is cited rests on retracted pages alone."""


@dataclass(frozen=True)
class Fault:
    broken: Broken
    told: str
    """What is wrong, in words; may hold text of pages, which is data."""


@dataclass(frozen=True)
class Found:
    """A fault, and where it lies."""

    link: Link
    id: UUID
    name: str
    fault: Fault


_OF_TYPE: Final = {ADVICE_TYPE: Link.ADVICE, ANALYSIS_TYPE: Link.ANALYSIS}


def link_of(type_name: str) -> Link:
    """What a node of this type is."""
    return _OF_TYPE.get(type_name, Link.NODE)
