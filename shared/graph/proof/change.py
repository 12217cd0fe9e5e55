"""What new claims make of a thing, and what of it gives way: told to whoever made them, so that nothing changes unseen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from shared.graph.proof.fold import Claim, Properties, folded, standing
from shared.graph.proof.seals import canonical


@dataclass(frozen=True)
class Held:
    """A value that stood, or stands, and when it was true; None where no page speaks of it."""

    value: Any
    as_of: datetime | None


@dataclass(frozen=True)
class Change:
    """`superseded`: values that stood and gave way; `kept`: newer ones that stand against those given now."""

    properties: dict[str, Any]
    evidence: tuple[UUID, ...] = ()
    """All that there is of the thing then."""
    superseded: Mapping[str, Held] = field(default_factory=dict)
    kept: Mapping[str, Held] = field(default_factory=dict)


def change(properties: Properties, claims: Sequence[Claim], given: Sequence[Claim]) -> Change:
    """`properties` as `claims` left them, and what they are with those `given` now; any of these may be known already."""
    every = {claim.evidence_id: claim for claim in (*given, *claims)}
    after = folded(properties, every.values())
    before, now = standing(claims), standing(every.values())
    values = {name: value for claim in given for name, value in claim.values.items()}
    superseded = {
        name: Held(properties[name], before[name].as_of if name in before else None)
        for name in values
        if name in properties and not _same(properties[name], after[name])
    }
    kept = {
        name: Held(after[name], now[name].as_of)
        for name, value in values.items()
        if not _same(value, after[name])
    }
    return Change(after, tuple(every), superseded, kept)


def _same(one: Any, other: Any) -> bool:
    return canonical(one) == canonical(other)
