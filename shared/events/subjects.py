"""Which events a pattern of subjects means. A pattern is NATS's: `*` stands for one word, `>` for all that follow."""

from shared.events.models import EVENTS

EVERYTHING = ">"


def pattern_of(written: str) -> str:
    """What was written as a pattern: a noun alone means all of its events. Raises ValueError where no event can match."""
    nouns = {event.subject.partition(".")[0] for event in EVENTS}
    pattern = f"{written}.*" if written in nouns else written
    if pattern != EVERYTHING and not any(matches(pattern, event.subject) for event in EVENTS):
        known = ", ".join(event.subject for event in EVENTS)
        raise ValueError(f"no event is named {written!r}; there are {known}")
    return pattern


def matches(pattern: str, subject: str) -> bool:
    wanted, given = pattern.split("."), subject.split(".")
    if wanted[-1] == EVERYTHING:
        if len(given) < len(wanted):
            return False
        wanted, given = wanted[:-1], given[: len(wanted) - 1]
    return len(wanted) == len(given) and all(
        token in ("*", word) for token, word in zip(wanted, given, strict=True)
    )
