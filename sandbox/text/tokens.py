"""Words, their stems, and which of them carry meaning."""

import re
from functools import lru_cache
from unicodedata import combining, normalize


def word_set(words: str) -> frozenset[str]:
    """Split a text of words into a set."""
    return frozenset(words.split())


WORD = re.compile(r"[^\W_]+(?:[-'’.&][^\W_]+)*")

STOP_WORDS = word_set(
    """
    a about above after again against ago all almost along already also although always am among
    amongst amid an and another any anything are around as at away back be became because become
    becomes been before began being below between both but by can cannot could did do does doing
    done down due during each either else etc even ever every few for former from further had has
    have having he hence her here hers herself him himself his how however i if in including indeed
    instead into is it its itself just last least less like made mainly make makes making many may
    me meanwhile might more moreover most mostly much must my near nearly neither never nevertheless
    no nor not note nothing now of off often on once one only onto or other others otherwise our out
    over own part per perhaps put quite rather same several shall she should since so some still
    such than that the their theirs them themselves then there therefore these they this those
    though through throughout thus to today together too toward towards under until unlike up upon
    us use used uses using various very via was we well were what when where whereas whether which
    while who whole whom whose why will with within without would yet you your yours
    """
)
"""Words without a meaning of their own."""

ACRONYMS = frozenset({"IT", "US", "WHO"})
"""Differ from stop words only by their capitals."""

GENERIC_WORDS = word_set(
    """
    affect affecting affects alert analyse analyses analysis analyze area areas assess bear bears
    best briefing care cares change changes check collect comparable compare connected current
    currently data depend depending depends detail details develop development developments drive
    drives driving early effect effects event events examine explore exposed exposure eye fact facts
    figure figures find finding findings focus follow future general give grow happen happening help
    identify impact impacts important information insight insights investors investor interest
    interesting issue issues keep key know knowledge latest learn list long-term look main major map
    matter matters medium-term mission monitor name names near-term need needs new news notable
    observe opportunities opportunity overview people picture please potential recent recently
    relate relates relevant report reported reports research role roles see seek short short-term situation stand
    stands state status study summarise summarize tell term things think top topic topics track
    require requires required recommend recommends recommended describe describes described explain
    explains say says mention mentions mentioned document documents reader readers
    trend trends understand update updates want watch watching way ways
    """
)
"""Words common in missions, which do not distinguish topics."""


def words(text: str) -> list[str]:
    """All words as written, without possessive endings."""
    return [without_possessive(word) for word in WORD.findall(text)]


def without_possessive(word: str) -> str:
    """Remove a possessive ending: `Ghana's` gives `Ghana`."""
    return word[:-2] if word.endswith(("'s", "’s")) else word


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Lower case without accents, to compare names."""
    word = fold(without_possessive(word))
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


@lru_cache(maxsize=65_536)
def fold(text: str) -> str:
    """Lower case without accents, to compare names."""
    if text.isascii():
        return text.lower()
    return "".join(part for part in normalize("NFKD", text) if not combining(part)).lower()


def is_meaningful(word: str) -> bool:
    """Whether a word is no stop word, number or single letter. `US` is meaningful, `us` is not."""
    is_stop_word = word.lower() in STOP_WORDS and word not in ACRONYMS
    return len(word) > 1 and not word.isdigit() and not is_stop_word


def stems(text: str) -> list[str]:
    """The stems of the meaningful words in order, without duplicates."""
    return list(dict.fromkeys(stem(word) for word in words(text) if is_meaningful(word)))


def topic_stems(text: str) -> frozenset[str]:
    """The stems of the significant words."""
    return frozenset(stem(word) for word in words(text) if is_significant(word))


def is_significant(word: str) -> bool:
    """Whether a word is meaningful and not common in missions."""
    return is_meaningful(word) and word.lower() not in GENERIC_WORDS
