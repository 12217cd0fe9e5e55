"""Functions that word short English phrases."""

import re
from collections.abc import Sequence

NOT_WORD = re.compile(r"[^a-z0-9]+")
IRREGULAR = {
    "people": "Person",
    "countries": "Country",
    "cities": "City",
    "men": "Man",
    "series": "Series",
}
MAX_EDGE_TYPE_CHARS = 40
SMALL_NUMBERS = (
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
)
ACTORS = frozenset(
    {
        "agencies",
        "banks",
        "companies",
        "countries",
        "economies",
        "firms",
        "governments",
        "groups",
        "startups",
        "states",
    }
)
TRAILING_WORDS = frozenset(
    {"a", "and", "by", "for", "from", "in", "of", "on", "or", "per", "the", "to", "with"}
)
"""A shortened name does not end with one of these."""


def join_with_and(names: Sequence[str]) -> str:
    """Join names as in `A, B and C`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def shorten(text: str, max_chars: int) -> str:
    """Cut `text` between words to at most `max_chars` characters, with a mark at the cut."""
    if len(text) <= max_chars:
        return text
    return text[: max_chars - 1].rsplit(" ", 1)[0].rstrip(",;: ") + "…"


def singular(noun: str) -> str:
    """The singular of a noun, capitalised: `commodities` gives `Commodity`."""
    lower = noun.lower()
    if lower in IRREGULAR:
        return IRREGULAR[lower]
    if lower.endswith("ies") and len(lower) > 4:
        lower = lower[:-3] + "y"
    elif lower.endswith(("ches", "shes", "sses", "xes")):
        lower = lower[:-2]
    elif lower.endswith("s") and not lower.endswith(("ss", "us", "is")):
        lower = lower[:-1]
    return lower[:1].upper() + lower[1:]


def is_plural(phrase: str) -> bool:
    """Whether the last word is a plural: `chip makers`, `people`."""
    last = phrase.lower().split()[-1]
    if last in IRREGULAR:
        return last != "series"
    return len(last) > 3 and last.endswith("s") and not last.endswith(("ss", "us", "is", "ics"))


def is_several(name: str) -> bool:
    """Whether a name is a common noun in the plural, and so takes a plural verb."""
    return name[:1].islower() and is_plural(name)


def is_group_of_actors(phrase: str) -> bool:
    """Whether the phrase names several that act, such as `chip makers` or `banks`, and not things."""
    last = phrase.lower().split()[-1]
    return is_plural(phrase) and (last in ACTORS or last.endswith(("ers", "ors")))


def count_noun(number: int, noun: str) -> str:
    """A number with its noun: `1 edge`, `2 edges`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def count_in_words(number: int) -> str:
    """A small number as a word: `two`."""
    return SMALL_NUMBERS[number] if 0 <= number < len(SMALL_NUMBERS) else str(number)


def snake_case(text: str) -> str:
    """Convert a label to an edge type: `Exports - partners` gives `exports_partners`."""
    parts = [part for part in NOT_WORD.split(text.lower()) if part]
    name = ""
    for part in parts:
        if len(name) + len(part) + 1 > MAX_EDGE_TYPE_CHARS:
            break
        name = f"{name}_{part}" if name else part
    while name.rpartition("_")[2] in TRAILING_WORDS and "_" in name:
        name = name.rpartition("_")[0]
    return name if name[:1].isalpha() else f"has_{name}" if name else "related_to"


def with_article(noun: str) -> str:
    """The noun with its indefinite article: `an Organization`."""
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
