"""A name for an agent, of the words that carry its mission."""

from sandbox.text.subject import subject_of
from sandbox.text.words import significant, words

MOST_WORDS = 4
MAX_NAME_CHARS = 40
WATCH = "Watch"


def name_of(mission: str) -> str:
    """Two to four words of whole terms, as far as they fit; what is missing is filled up."""
    chosen: list[str] = []
    for term in subject_of(mission).terms():
        told = [word[:1].upper() + word[1:] for word in words(term) if significant(word)]
        fresh = [word for word in told if word not in chosen][:MOST_WORDS]
        if _fits([*chosen, *fresh]):
            chosen += fresh
    if not chosen:
        return "Sandbox Watch"
    return " ".join(chosen if len(chosen) > 1 else [*chosen, WATCH])


def _fits(chosen: list[str]) -> bool:
    return len(chosen) <= MOST_WORDS and len(" ".join(chosen)) <= MAX_NAME_CHARS
