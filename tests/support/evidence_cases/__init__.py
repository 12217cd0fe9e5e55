"""Labelled cases of claims and quotes: does the claim follow from what is quoted?

`first` and `adversarial` were written beside the rules. The authors of `second` and `held_out` had not read the rules. When
the rules were final, each was run once, `held_out` last (decision 0040 has the figures); then the failures were read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Fault = Literal[
    "number",
    "scale",
    "unit",
    "currency",
    "percentage",
    "year",
    "date",
    "name",
    "subject",
    "negation",
    "invented",
    "edge_end",
]


@dataclass(frozen=True)
class EvidenceCase:
    """A claim about one node or edge with the sentences that it cites."""

    id: str
    """Unique and stable, such as `de-factbook-population-17`."""
    language: str
    """Of the page: en, de, fr, es, it."""
    title: str
    """Of the page."""
    heading: str
    """The nearest heading above the quote in the page; may be empty."""
    page: str
    """The page's text, which contains every quote word for word. Other sentences of it may be misleading."""
    quotes: tuple[str, ...]
    """What the claim cites."""
    subject: str
    """The node's name; of an edge, the source's name."""
    properties: Mapping[str, Any]
    """What is claimed: JSON values (numbers, ISO dates as text, texts, lists). For an edge, its properties."""
    kind: str = "node"
    """`node` or `edge`."""
    type_name: str = "Entity"
    """Of the node or edge, such as Company or produces."""
    target: str = ""
    """Of an edge: the target's name."""
    aliases: tuple[str, ...] = ()
    """Known names of the subject besides `subject`."""
    target_aliases: tuple[str, ...] = ()
    fault: Fault | None = None
    """What is false about it; None if the claim is true."""
    rule: str = ""
    """Of a true case, what a reader needs to see that it follows, such as `digit grouping` or `written date`."""
    note: str = ""
