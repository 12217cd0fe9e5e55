"""Labelled cases of claims and quotes: does the claim follow from what is quoted?

One JSON object in a line of `NAME.jsonl`; fields with their default are left out. `first` and `adversarial` were written
beside the rules. The authors of `second` and `held_out` had not read the rules. When the rules were final, each was run
once, `held_out` last (decision 0040 has the figures); then the failures were read.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

Expected = Literal["true", "refused", "not_supported"]
"""`refused`: false, and the value is not in the quotes. `not_supported`: false, with a value that the quotes have."""
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
    """Of the page, such as en."""
    page: str
    """The page's text, which contains every quote word for word. Other sentences of it may be misleading."""
    quotes: tuple[str, ...]
    """What the claim cites."""
    subject: str
    """The node's name; of an edge, the source's name."""
    properties: Mapping[str, Any]
    """What is claimed: JSON values (numbers, ISO dates as text, texts, lists). For an edge, its properties."""
    title: str = ""
    """Of the page."""
    heading: str = ""
    """The nearest heading above the quote in the page."""
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
    expected: Expected | None = None
    """Of the adversarial cases, which have no fault."""


@cache
def evidence_cases(name: str) -> tuple[EvidenceCase, ...]:
    """The cases of `NAME.jsonl`, in its order."""
    return tuple(EvidenceCase(**row) for row in read_rows(name))


def read_rows(name: str) -> Iterator[dict[str, Any]]:
    """The objects of `NAME.jsonl`, whose lists are tuples, except in properties."""
    lines = files(__package__).joinpath(f"{name}.jsonl").read_text(encoding="utf-8")
    for line in lines.splitlines():
        row = json.loads(line)
        yield {key: tuple(each) if isinstance(each, list) else each for key, each in row.items()}
