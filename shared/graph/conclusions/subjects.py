"""Subjects: the nodes that a piece of advice is about. Pure."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from shared.graph.conclusions.citations import Kind
from shared.graph.grounding.names import is_mentioned
from shared.tools import ToolRefusalError

_WORD: Final = re.compile(r"\w+")
_SHORT_CHARS: Final = 2
_MAX_UNNAMED: Final = 8
"""Nodes that are the subject of advice which names none of them. More would overlap with any other advice."""


@dataclass(frozen=True)
class SubjectNode:
    id: UUID
    names: tuple[str, ...]

    def is_named_in(self, text: str) -> bool:
        return any(is_mentioned(name, [text]) for name in self.names)

    def is_described_in(self, text: str) -> bool:
        """Whether the text has most words of a name, in any order: "the 2024 bond of Brandal" for "Brandal bond of 2024"."""
        said = _words(text)
        return any(
            2 * len(words & said) > len(words) for name in self.names if (words := _words(name))
        )


def listed(names: Mapping[UUID, str]) -> str:
    """`Ghana [node:…], Togo [node:…]`."""
    return ", ".join(sorted(f"{name} [{Kind.NODE}:{each}]" for each, name in names.items()))


def find_subject(
    stated: Collection[UUID],
    name: str,
    summary: str,
    nodes: Sequence[SubjectNode],
    inherited: Collection[UUID] = (),
) -> frozenset[UUID]:
    """Returns the nodes that advice states as its subject, else those that its name names, else the `inherited` ones, of
    what it replaces, else those that its summary names, or describes, else all, if they are few.

    `nodes` are what the advice rests on. Raises ToolRefusalError if it states one that it does not rest on, or does not
    name: then it is about another node.
    """
    names = {node.id: node.names[0] for node in nodes}
    in_name, in_summary = (_named_in(text, nodes) for text in (name, summary))
    described = {node.id for node in nodes if node.is_described_in(f"{name} {summary}")}
    if not stated:
        found = in_name or frozenset(inherited) & names.keys() or in_summary or described
        if not found and len(names) > _MAX_UNNAMED:
            raise ToolRefusalError(
                "subject: neither the name nor the summary of this advice says what it is about. Name it as the analyses do."
            )
        return frozenset(found or names)
    if not names.keys() >= set(stated):
        raise ToolRefusalError(
            f"subject: the cited analyses do not rest on this. Give nodes of these: {listed(names)}."
        )
    part, named = ("name", in_name) if in_name else ("summary", in_summary)
    if named and named.isdisjoint(stated):
        raise ToolRefusalError(
            f"subject: the {part} of this advice names another node: {listed({each: names[each] for each in named})}."
            " Give the nodes that the advice is about, and name them."
        )
    if unnamed := set(stated) - in_name - in_summary - described:
        raise ToolRefusalError(
            "subject: neither the name nor the summary of this advice names"
            f" {listed({each: names[each] for each in unnamed})}. Name what the advice is about."
        )
    return frozenset(stated)


def _words(text: str) -> frozenset[str]:
    """Its words in small letters, without the shortest ones."""
    return frozenset(word for word in _WORD.findall(text.casefold()) if len(word) > _SHORT_CHARS)


def _named_in(text: str, nodes: Iterable[SubjectNode]) -> frozenset[UUID]:
    return frozenset(node.id for node in nodes if node.is_named_in(text))
