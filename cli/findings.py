"""The results of checks."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    GOOD = "good"
    NOTE = "note"
    """Nothing is wrong, but it is worth knowing."""
    BAD = "bad"


@dataclass(frozen=True)
class Finding:
    """The result of one check. `fix` says how to fix it, and is always set for what is bad."""

    name: str
    verdict: Verdict
    message: str
    fix: str = ""


def good(name: str, message: str) -> Finding:
    return Finding(name, Verdict.GOOD, message)


def note(name: str, message: str, fix: str = "") -> Finding:
    return Finding(name, Verdict.NOTE, message, fix)


def bad(name: str, message: str, fix: str) -> Finding:
    return Finding(name, Verdict.BAD, message, fix)
