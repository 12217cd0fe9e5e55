"""What the rules say about a claim. Pure."""

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Final, NamedTuple


class Verdict(IntEnum):
    """The greater, the worse."""

    SUPPORTED = 0
    """Nothing in the claim is left to interpretation."""
    UNVERIFIED = 1
    """Nothing speaks against the claim; the rules cannot read all of it."""
    REFUSED = 2
    """The claim has something that the rules read, and that its quotes do not have."""


class Finding(NamedTuple):
    """The verdict on one claim, and the reason unless it is supported."""

    verdict: Verdict
    reason: str = ""


SUPPORTED: Final = Finding(Verdict.SUPPORTED)
_MAX_LISTED: Final = 5


def refused(reason: str) -> Finding:
    return Finding(Verdict.REFUSED, reason)


def unverified(reason: str) -> Finding:
    return Finding(Verdict.UNVERIFIED, reason)


def worst(findings: Iterable[Finding]) -> Finding:
    """Supported if there are none."""
    return max(findings, key=lambda finding: finding.verdict, default=SUPPORTED)


def listed(values: Iterable[Any]) -> str:
    """The first of the values, for a reason."""
    return ", ".join(str(value) for value in list(values)[:_MAX_LISTED])


def instead(values: Iterable[Any]) -> str:
    """The end of a reason: what the quote has; empty if that is nothing."""
    shown = list(dict.fromkeys(values))
    return f"; it has {listed(shown)}" if shown else ""
