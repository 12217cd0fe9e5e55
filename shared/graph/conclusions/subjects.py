"""Subjects: the nodes that a piece of advice is about. Pure."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from shared.graph.conclusions.citations import Kind
from shared.graph.grounding.names import Mention, find_mentions, is_mentioned
from shared.tools import ToolRefusalError

_WORD: Final = re.compile(r"\w+")
_SHORT_CHARS: Final = 2
_MAX_UNNAMED: Final = 8
"""Nodes that are the subject of advice which names none of them. More would overlap with any other advice."""
MARKET_ACTIONS: Final = frozenset(("BUY", "HOLD", "SELL"))
"""Actions of which two contradict each other on related subjects too. Words of other missions can go together there."""
Ties = Mapping[frozenset[UUID], str]
"""Pairs of nodes that a declared relation joins, with the type of its edge."""


@dataclass(frozen=True)
class SubjectNode:
    id: UUID
    names: tuple[str, ...]

    def is_named_in(self, text: str) -> bool:
        return any(is_mentioned(name, [text]) for name in self.names)

    def mentions_in(self, text: str) -> list[Mention]:
        return [each for name in self.names for each in find_mentions(name, text)]

    def is_described_in(self, text: str) -> bool:
        """Whether the text has most words of a name, in any order: "the 2024 bond of Brandal" for "Brandal bond of 2024"."""
        said = _words(text)
        return any(
            2 * len(words & said) > len(words) for name in self.names if (words := _words(name))
        )


@dataclass(frozen=True)
class Stated:
    """The action, subject and words of advice."""

    action: str
    nodes: Sequence[SubjectNode]
    text: str
    """Title and summary."""

    def contradicts(self, other: "Stated") -> bool:
        """Whether the actions do not go together on related subjects."""
        return self.action != other.action and {self.action, other.action} <= MARKET_ACTIONS

    def relation(self, other: "Stated", ties: Ties) -> str:
        """How the subjects are related; empty if they are not."""
        for one in self.nodes:
            for node in other.nodes:
                if (tie := ties.get(frozenset((one.id, node.id)))) is not None:
                    return tie
        return self._names(other.nodes) or other._names(self.nodes)

    def _names(self, nodes: Collection[SubjectNode]) -> str:
        """Says that the text names one of the nodes; empty if it names none."""
        named = next((each.names[0] for each in nodes if each.is_named_in(self.text)), "")
        return f"“{named}” is named" if named else ""


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

    `nodes` are what the advice rests on. Those that its name names belong to the subject, whatever it states. Raises
    ToolRefusalError if it states one that it does not rest on, or does not name: then it is about another node.
    """
    names = {node.id: node.names[0] for node in nodes}
    in_name, in_summary = (_named_in(text, nodes) for text in (name, summary))
    text = f"{name}. {summary}"
    described = {node.id for node in nodes if node.is_described_in(text)}
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
    named_at_all = {node.id for node in nodes if node.is_named_in(text)}
    if unnamed := set(stated) - named_at_all - described:
        raise ToolRefusalError(
            "subject: neither the name nor the summary of this advice names"
            f" {listed({each: names[each] for each in unnamed})}. Name what the advice is about."
        )
    return frozenset(stated) | in_name


def _words(text: str) -> frozenset[str]:
    """Its words in small letters, without the shortest ones."""
    return frozenset(word for word in _WORD.findall(text.casefold()) if len(word) > _SHORT_CHARS)


def _named_in(text: str, nodes: Sequence[SubjectNode]) -> frozenset[UUID]:
    """Those that the text names, without those that it has within longer names only, as "Orion" in "Orion bond"."""
    named = {node.id: node.mentions_in(text) for node in nodes if node.is_named_in(text)}
    mentions = {each for found in named.values() for each in found}
    within = {
        each
        for each in mentions
        for other in mentions
        if each != other and other.start <= each.start and each.end <= other.end
    }
    return frozenset(
        node_id for node_id, found in named.items() if not found or not within.issuperset(found)
    )
