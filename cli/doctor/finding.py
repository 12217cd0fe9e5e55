"""What an examination finds."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    GOOD = "good"
    NOTE = "note"
    """Nothing is wrong, but worth knowing."""
    BAD = "bad"


@dataclass(frozen=True)
class Finding:
    """`mend` says what to do, and is there for everything that is bad."""

    name: str
    verdict: Verdict
    told: str
    mend: str = ""


def good(name: str, told: str) -> Finding:
    return Finding(name, Verdict.GOOD, told)


def note(name: str, told: str, mend: str = "") -> Finding:
    return Finding(name, Verdict.NOTE, told, mend)


def bad(name: str, told: str, mend: str) -> Finding:
    return Finding(name, Verdict.BAD, told, mend)
