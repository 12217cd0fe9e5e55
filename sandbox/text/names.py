"""Proper names in running text, found by rules and word lists."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from sandbox.text.sentences import sentences
from sandbox.text.tokens import GENERIC_WORDS, STOP_WORDS, word_set

CONNECTORS = word_set(
    "of de da do das dos del della di du la le van von der den bin ibn al el ul y"
)
"""Possible inside a name: Gulf of Guinea, Rio de Janeiro."""

HONORIFICS = word_set(
    """
    Admiral Ambassador Captain Chairman Chairwoman Chancellor Chief Colonel Commissioner Congressman
    Director Dr Emperor Executive Founder General Governor Judge Justice King Lady Lieutenant Lord
    Lt Madam Major Mayor Minister Mr Mrs Ms President Presidents Prime Prince Princess Prof
    Professor Queen Secretary Senator Sergeant Sheikh Sir Sultan Vice
    """
)
"""Titles before a person's name, which are not a part of it."""

CALENDAR = word_set(
    """
    January February March April May June July August September October November December Jan Feb
    Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Monday Tuesday Wednesday Thursday Friday Saturday
    Sunday Spring Summer Autumn Fall Winter Christmas Easter Q1 Q2 Q3 Q4 H1 H2 FY
    """
)

NOT_NAMES = word_set(
    """
    GDP GNP GNI Let PPP CPI CO2 LNG LPG GW GWh MW MWh TWh kWh USD EUR GBP CEO CFO CTO COO UTC GMT EST ID
    IT TV AM FM PM OK HIV AIDS AI ML R&D IPO VAT NA North South East West Northern Southern Eastern
    Western Central Upper Lower Company Group Government Parliament Congress Constitution Republic
    Kingdom State States City Army Navy Chapter Section Table Figure Source Sources Published Note
    Notes Findings Objective According Nothing Found Yes No English French Net Total Average Annual
    Real Gross World Assembly Church Corps Inc Ltd PLC Leader Military Nation Peace People Solidarity Unity
    """
)
"""Capitalised words that alone are not names."""

GENERIC_BODY_WORDS = word_set(
    """
    Agency Air Armed Army Assembly Authority Bank Board Border Bureau Central Civil Coalition Coast
    Command Commission Council Court Customs Defense Defence Gendarmerie Federal Force Forces Guard
    Guards Ground High Interior
    Internal Department Emergency Land Marine Unity Maritime Military Ministry National Naval Navy Police Public Republican
    Security Service Services State Supreme
    """
)
"""A name of these words only could be a body of any country."""

ADJECTIVES = word_set(
    """
    African American Arab Arabic Armenian Asian British Canadian Catholic Christian Chinese Czech
    Danish Dutch English European Finnish French German Greek Hindu Indian Islamic Israeli Italian
    Japanese Jewish Korean Mexican Muslim Norwegian Ottoman Polish Portuguese Protestant Roman
    Russian Soviet Spanish Sunni Shia Swedish Swiss Thai Turkish Iraqi Pakistani Saudi Bangladeshi
    Kuwaiti Yemeni Omani Qatari Emirati Africans Americans Europeans Spaniards Arabs Germans Jews
    Muslims Christians Turks Kurds
    """
)
ADJECTIVE_ENDINGS = ("ian", "ians", "ean", "eans", "ese", "ish")


DIRECTIONS = word_set("Northern Southern Eastern Western")


def is_adjective(word: str) -> bool:
    """Whether a word is an adjective of a people or place: Ghanaian, Portuguese."""
    return word in ADJECTIVES or (len(word) > 5 and word.endswith(ADJECTIVE_ENDINGS))


NAME_HEADS = word_set(
    """
    Academy Agency Alliance Association Bank Basin Bay Board Bureau Cape Chamber City Coast
    Commission Committee Commonwealth Community Council Court Declaration Democratic Department
    Duchy Emirate Empire Federation Fund Gulf House Institute Institution Isle Islands Isthmus
    Kingdom Law League Ministry Mount Museum Organisation Organization Peninsula Port
    Principality Province Region Republic Sea Society State States Straits Strait Sultanate
    Territory Treaty Union University Valley
    """
)
"""First words of names such as `Bank of Ghana`."""

NAMES_IN_ED = word_set("Advanced Allied Applied Associated Federated United Unified")
"""First words of names such as `United Nations`."""

REFERENCES = word_set(
    "Appendix Chapter Example Figure Footnote Issue Listing Page Part Section Step Table Version Volume"
)
"""Last words of references, such as `Chapter 12`."""

PAIRED_WORDS = word_set(
    "Cultural Economic Educational Foreign Industrial Legal Military Monetary Political Public Scientific Social "
    "Technical Trade"
)
"""Words before an `and` inside a name: Economic and Monetary Union."""

ACTOR_VERBS = word_set(
    """
    acquired acquires agreed agrees aims announced announces bought builds built buys closed closes
    completed delivers employs expects exports has invested invests is launched launches makes mines
    moved offers opened opens operates opted owns plans produced produces raised raises received
    refines reported reports runs said says sells shipped ships signed signs sold started starts
    supplied supplies took uses was will won
    """
)
"""Verbs after a name at the start of a sentence where nothing else marks it as a name."""


TOKEN = re.compile(r"[^\W_]+(?:[-'’&][^\W_]+)*|&")
CAPITAL = re.compile(r"^(?:[A-ZÀ-ÖØ-Þ]|(?:d|l|al|el)['’-][A-ZÀ-ÖØ-Þ])")
ABBREVIATED = re.compile(r"^(?:St|Mt|Lt|Dr|Mr|Mrs|Ms|Prof|Gen|Col|Gov|Sen|[A-Z])$")
POSSESSIVE = re.compile(r"['’]s$|(?<=s)['’]$")
ADDRESS = re.compile(r"https?://\S+")
EXPLAINED = re.compile(r"(?:\b\d{1,3}|[.,]\d+|\b(?:thousand|million|billion|trillion)) $|\($")
"""Capitals after a number are its unit (`5.1 million TEU`); those in a bracket abbreviate what precedes."""
SECTION_NUMBER = re.compile(r"\s\d+\.\d")
MAX_NAME_WORDS = 6


@dataclass(frozen=True, slots=True)
class Name:
    """A name at `start` in its sentence. `has_title`: after a title of office or courtesy."""

    text: str
    start: int
    has_title: bool = False

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class NameFinder:
    """Finds names, with the capitalisation of words in a whole text as evidence."""

    def __init__(self, texts: Iterable[str], known_names: Iterable[str] = ()) -> None:
        self._lower_case: set[str] = set()
        self._known = frozenset(known_names)
        self._capitalised: set[str] = {word for name in self._known for word in name.split()}
        for text in texts:
            for sentence in sentences(ADDRESS.sub("", text)):
                self._learn(sentence)

    def find(self, sentence: str) -> list[Name]:
        """Find the names in `sentence` from left to right; none in a heading."""
        if _is_heading(sentence):
            return []
        return [name for run in _runs(sentence) if (name := self._name(sentence, run))]

    def _learn(self, sentence: str) -> None:
        if _is_heading(sentence):
            return
        for token in TOKEN.finditer(sentence):
            word = POSSESSIVE.sub("", token.group())
            if word[:1].islower():
                self._lower_case.add(word)
            elif not _starts_clause(sentence, token.start()):
                self._capitalised.add(word)

    def _name(self, sentence: str, run: list[_Token]) -> Name | None:
        if len(run) > 1 and all(token.text.isupper() and token.text.isascii() for token in run):
            return None  # shouted words
        run, titled = _without_titles(run)
        while run and _has_trailing_word(run):
            run = run[:-1]
        while run and self._is_ordinary_start(sentence, run):
            run = run[1:]
        while run and (run[0].text in CONNECTORS or run[0].text == "&"):
            run = run[1:]
        if not run or len(run) > MAX_NAME_WORDS:
            return None
        text = sentence[run[0].start : run[-1].end]
        if SECTION_NUMBER.match(sentence, run[-1].end):
            return None  # a reference such as `Kapitel 4.1`
        if len(text) > 3 and text.isupper() and text.lower() in self._lower_case:
            return None  # the heading of a part, such as DESCRIPTION
        if text.isupper() and EXPLAINED.search(sentence[: run[0].start]):
            return None
        return None if _is_not_a_name(text, run) else Name(text, run[0].start, titled)

    def _is_ordinary_start(self, sentence: str, run: list[_Token]) -> bool:
        word = run[0].text
        if any(sentence.startswith(name, run[0].start) for name in self._known if " " in name):
            return False
        is_article = word == "The" and run[0].start and len(run) > 1 and not run[1].text.isupper()
        if word.lower() in STOP_WORDS and not is_article:
            return True
        if (
            not _starts_clause(sentence, run[0].start)
            or word.isupper()
            or word[1:] != word[1:].lower()
        ):
            return False
        if len(run) > 2 and run[1].text == "of":
            return word not in NAME_HEADS
        if word.lower() in GENERIC_WORDS or word.lower() in self._lower_case:
            return True
        if len(word) > 5 and word.endswith("ed") and word not in NAMES_IN_ED:
            return True  # a participle, as in `Updated Chapter`
        return (
            len(run) == 1 and word not in self._capitalised and not _is_actor(sentence, run[0].end)
        )


def _starts_clause(sentence: str, position: int) -> bool:
    left = sentence[:position].rstrip(" \"'“‘([*")
    return not left or left[-1] in ".!?:;—–•"


def _is_actor(sentence: str, position: int) -> bool:
    """Whether a verb of services or a possessive ending follows."""
    right = sentence[position:]
    return right.startswith(("'s ", "’s ")) or right.lstrip().partition(" ")[0] in ACTOR_VERBS


def _runs(sentence: str) -> list[list[_Token]]:
    """Runs of capitalised words, with the small connecting words between them."""
    runs: list[list[_Token]] = []
    run: list[_Token] = []
    for match in TOKEN.finditer(sentence):
        token = _Token(POSSESSIVE.sub("", match.group()), match.start())
        joins = run and _joins(sentence, run[-1], token)
        if run and not joins:
            runs.append(run)
            run = []
        if CAPITAL.match(token.text) or (run and _connects(run[-1].text, token.text)):
            run.append(token)
        elif run:
            runs.append(run)
            run = []
    return [*runs, run] if run else runs


def _connects(left: str, word: str) -> bool:
    """Whether `word` continues a name. `of` does only after words such as Bank or Gulf."""
    if word == "of":
        return left in NAME_HEADS
    return left in PAIRED_WORDS if word == "and" else word in CONNECTORS or word == "&"


def _joins(sentence: str, last: _Token, token: _Token) -> bool:
    gap = sentence[last.end : token.start]
    return gap == " " or (gap == ". " and ABBREVIATED.match(last.text) is not None)


def _without_titles(run: list[_Token]) -> tuple[list[_Token], bool]:
    titled = False
    if len(run) > 2 and is_adjective(run[0].text) and run[1].text in HONORIFICS:
        run = run[1:]
    while run and run[0].text in HONORIFICS and len(run) > 1:
        run = run[1:]
        titled = True
    if run and run[0].text in CONNECTORS:
        return run, False
    return run, titled


def _has_trailing_word(run: list[_Token]) -> bool:
    last = run[-1].text
    return last in CONNECTORS or last in {"&", "and"} or last in STOP_WORDS


def _is_not_a_name(text: str, run: list[_Token]) -> bool:
    words = [token.text for token in run]
    if words[-1] in REFERENCES:
        return True
    if len(text) < 2 or all(word in CALENDAR or word.isdigit() for word in words):
        return True
    if len(words) == 1:
        return (
            text in NOT_NAMES
            or text in NAME_HEADS
            or text in HONORIFICS
            or text in GENERIC_BODY_WORDS
            or is_adjective(text)
            or text.lower() in STOP_WORDS
        )
    return (
        is_adjective(words[-1]) or words[-1] in DIRECTIONS or GENERIC_BODY_WORDS.issuperset(words)
    )


def _is_heading(sentence: str) -> bool:
    words: list[str] = [word for word in TOKEN.findall(sentence) if word[0].isalpha()]
    if len(words) < 4 or sentence.rstrip()[-1:] in ".!?;," or ": " in sentence:
        return False
    weighty = [word for word in words if word.lower() not in STOP_WORDS]
    return sum(word[0].isupper() for word in weighty) > len(weighty) * 0.8


MAX_CACHED_NAMES = 4096


def find_whole_name(name: str, sentence: str, other_names: Iterable[str] = ()) -> int:
    """The first position of `name` as a whole name, not inside a word or a longer name of `other_names`; -1 if none."""
    places = [match.start() for match in _whole_name_pattern(name).finditer(sentence)]
    if not places:
        return -1
    longer = [
        longer_name
        for longer_name in other_names
        if len(longer_name) > len(name) and name in longer_name
    ]
    spans = [
        match.span()
        for longer_name in longer
        for match in _whole_name_pattern(longer_name).finditer(sentence)
    ]
    return next((at for at in places if not any(a <= at < b for a, b in spans)), -1)


@lru_cache(MAX_CACHED_NAMES)
def _whole_name_pattern(name: str) -> re.Pattern[str]:
    """A pattern of the whole name. A hyphen continues a name unless a small letter follows: `Ghana-based` names Ghana."""
    left = r"(?<!\w)(?<!\w-)" if name[:1].isalnum() else ""
    right = r"(?!\w)(?!-[^\W\da-z])" if name[-1:].isalnum() else ""
    return re.compile(f"{left}{re.escape(name)}{right}")
