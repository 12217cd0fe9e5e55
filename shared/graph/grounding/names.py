"""Names in a text: where a known name is mentioned, which names a text has, translated names of places. Pure."""

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Final, NamedTuple

from babel import Locale

from shared.graph.grounding.words import (
    LANGUAGES,
    Lexicon,
    by_word,
    fold,
    is_function_word,
    lexicon,
    pattern_of,
    phrases,
    table,
    word_set,
)

_INITIALS: Final = re.compile(
    r"(?<!\w)(?:[^\W\d_]{1,2}\.){2,}(?:[^\W\d_](?!\w))?|(?<!\w)(?:[A-Z]\.\s){1,3}[A-Z]\."
)
_TOKEN: Final = re.compile(r"[^\W_]+|&")
_AMPERSAND: Final = {"&": "and"}
"""Signs that are words: a page may write "Antigua & Barbuda" for a node "Antigua and Barbuda"."""
_SENTENCE_SIGN: Final = re.compile(r"[.!?:\n]")
_INFLECTIONS: Final = ("s", "es", "n", "en", "er", "e")
_MIN_INFLECTED: Final = 4
_MIN_STEM: Final = 4
_MAX_STEM: Final = 24
"""More than the longest name of a country that is one word has."""


class Token(NamedTuple):
    """A word of a text; `word` is folded."""

    word: str
    start: int
    end: int
    is_capitalized: bool
    starts_sentence: bool


class Name(NamedTuple):
    """A name that a text has; `is_certain` unless it may be a common noun, or the first word of a sentence."""

    text: str
    is_certain: bool
    start: int = 0
    end: int = 0


@lru_cache(maxsize=256)
def tokenize(text: str) -> tuple[Token, ...]:
    """The words of `text`; initials such as "S.p.A." are one word."""
    joined = _join_initials(text)
    lowered = joined.lower() if joined.isascii() else None
    tokens: list[Token] = []
    last_end = 0
    for match in _TOKEN.finditer(joined):
        start, end = match.span()
        between = joined[last_end:start]
        starts = not tokens or (
            between != " " and bool(_SENTENCE_SIGN.search(between)) and between[0] != "-"
        )
        first = joined[start]
        word = fold(match[0]) if lowered is None else lowered[start:end]
        word = _AMPERSAND.get(word, word)
        tokens.append(Token(word, start, end, first.isupper() or first.isdigit(), starts))
        last_end = end
    return tuple(tokens)


def _join_initials(text: str) -> str:
    """`text` with "SpA" and three blanks in place of "S.p.A.", so that positions stay."""
    return _INITIALS.sub(_without_dots, text) if text.count(".") > 1 else text


def _without_dots(match: re.Match[str]) -> str:
    letters = match[0].replace(".", "").replace(" ", "")
    return letters + " " * (len(match[0]) - len(letters))


_UNSURE_TITLES: Final = frozenset(("don", "dona", "lord", "ing", "m", "pr"))


@lru_cache(maxsize=4096)
def name_words(name: str) -> tuple[str, ...]:
    """The words of a name without its legal form, leading article and titles; all of them if nothing else is left."""
    words = [token.word for token in tokenize(name)]
    kept = [
        word
        for index, word in enumerate(words)
        if not (index and word in word_set("legal_forms"))
        and not (word in word_set("titles") and (word not in _UNSURE_TITLES or len(words) > 2))
    ]
    while len(kept) > 1 and kept[0] in word_set("articles"):
        kept.pop(0)
    return tuple(kept or words)


class Mention(NamedTuple):
    """A place of a name in a text."""

    start: int
    end: int


@lru_cache(maxsize=1024)
def find_mentions(name: str, text: str) -> tuple[Mention, ...]:
    """The mentions of `name` in `text`: its words in order, in any case, declined, with legal forms between them."""
    words = name_words(name)
    if not words:
        return ()
    tokens, first_word = tokenize(text), words[0]
    # All forms of a word begin with the same letter.
    letter = first_word[:1]
    return tuple(
        Mention(token.start, tokens[last].end)
        for first, token in enumerate(tokens)
        if token.word[:1] == letter
        and is_form_of(token.word, first_word)
        and (last := _last_word(tokens, first, words)) >= 0
    )


def _last_word(tokens: Sequence[Token], first: int, words: Sequence[str]) -> int:
    place = first
    for word in words[1:]:
        place += 1
        while place < len(tokens) and word != tokens[place].word in word_set("legal_forms"):
            place += 1
        if place >= len(tokens) or not is_form_of(tokens[place].word, word):
            return -1
    return place


def is_form_of(word: str, base: str) -> bool:
    """Whether `word` is `base`, or `base` with the ending of a case."""
    if word == base:
        return True
    if len(base) >= _MIN_INFLECTED and word.startswith(base) and word[len(base) :] in _INFLECTIONS:
        return True
    stem = _ADJECTIVE.fullmatch(base)
    return (
        stem is not None and word.startswith(stem[1]) and word[len(stem[1]) :] in _ADJECTIVE_ENDINGS
    )


_ADJECTIVE: Final = re.compile(r"(\w{3,})e[srn]")
_ADJECTIVE_ENDINGS: Final = frozenset(("e", "es", "er", "en", "em"))
"""Of German adjectives, as in "Statistisches Bundesamt"."""


def find_names(text: str, language: str | None) -> list[Name]:
    """The capitalized words in `text`, and what joins them. A single one is uncertain in German."""
    tokens, joined = tokenize(text), _join_initials(text)
    known = lexicon(language)
    names: list[Name] = []
    index = 0
    while index < len(tokens):
        if not _may_be_name(tokens, index, known):
            index += 1
            continue
        last = index
        while more := _words_that_join(text, tokens, last, known):
            last += more
        words = tokens[index : last + 1]
        index = last + 1
        while len(words) > 1 and (
            is_function_word(words[0].word) or words[0].word in word_set("articles")
        ):
            words = words[1:]
        is_single, first = len(words) == 1, words[0]
        written = joined[first.start : words[-1].end]
        is_common = is_single and (
            is_function_word(first.word)
            or first.word in word_set("titles")
            or first.word in word_set("legal_forms")
        )
        if is_common or written in known.symbols:
            continue
        is_certain = (
            not (is_single and (first.starts_sentence or known.language == "de"))
            or written.isupper()
            or any(character.isdigit() for character in written)
        )
        names.append(Name(written, is_certain, first.start, words[-1].end))
    return names


def _words_that_join(text: str, tokens: Sequence[Token], last: int, known: Lexicon) -> int:
    """How many words after the last one belong to the same name."""
    if last + 1 == len(tokens):
        return 0
    following = tokens[last + 1]
    between = text[tokens[last].end : following.start].strip(" \u00a0")
    is_end = following.starts_sentence and between == "." and len(tokens[last].word) > 2
    if (
        following.start - tokens[last].end > 3
        or between not in ("", "-", "'", "’", "&", ".")
        or is_end
    ):
        return 0
    if _may_be_name(tokens, last + 1, known):
        return 1
    is_particle = following.word in word_set("particles") and last + 2 < len(tokens)
    return 2 if is_particle and _may_be_name(tokens, last + 2, known) else 0


def _may_be_name(tokens: Sequence[Token], place: int, known: Lexicon) -> bool:
    token = tokens[place]
    if not token.is_capitalized or token.word[0].isdigit():
        return False
    if is_of_date(token.word, known):
        return False
    return not _is_of_amount(token.word, known) or _is_first_name(tokens, place, known)


def is_of_date(word: str, known: Lexicon) -> bool:
    """Whether the word is a month or a day of the week, whatever else it is."""
    return word in known.months or word in known.weekdays


def _is_of_amount(word: str, known: Lexicon) -> bool:
    return word in known.scales or word in known.units or word in known.currencies


def _is_first_name(tokens: Sequence[Token], place: int, known: Lexicon) -> bool:
    """Whether a unit or currency begins a name, as in "Miles Harland": not after a number, or in German."""
    if place + 1 >= len(tokens) or known.language == "de":
        return False
    before, after = tokens[place - 1] if place else None, tokens[place + 1]
    return (
        after.is_capitalized
        and not after.starts_sentence
        and after.start - tokens[place].end == 1
        and not (before and before.word[0].isdigit())
        and not (is_of_date(after.word, known) or _is_of_amount(after.word, known))
    )


def is_mentioned(name: str, texts: Sequence[str]) -> bool:
    if any(find_mentions(name, text) for text in texts):
        return True
    if name.isascii():
        return False
    # Chinese and other scripts have no blanks between words.
    has_no_blanks = any(each >= "\u2e80" or "\u0e00" <= each < "\u1000" for each in name)
    return has_no_blanks and any(fold(name) in fold(text) for text in texts)


_folded: Final = lru_cache(maxsize=256)(fold)


def contains(written: str, texts: Sequence[str]) -> bool:
    """Whether one of the texts has `written`, not as a part of a longer word or number."""
    wanted = fold(written)
    found = [text for text in map(_folded, texts) if wanted in text]
    alone = rf"(?<!\w)(?<!\d[.,'’]){re.escape(wanted)}(?!\w|[.,'’]\d)"
    return any(re.search(alone, text) for text in found)


_NO_PLACE: Final = "Etc/Unknown"
_NO_COUNTRIES: Final = frozenset(("EU", "UN", "EZ", "ZZ"))


def translate_place(name: str, language: str | None) -> list[str]:
    """What a country or city is called in `language` and in English, if it is known there by another name."""
    folded = fold(name)
    codes = dict.fromkeys(code for each in LANGUAGES if (code := _codes(each).get(folded)))
    names = [
        _names(each)[code]
        for code in codes
        for each in _with_english(language)
        if code in _names(each)
    ]
    names += [other for group in _synonyms() if folded in group for other in group]
    return [other for other in dict.fromkeys(names) if fold(other) != folded]


def is_place_name(name: str, language: str | None) -> bool:
    """Whether it is a country, city, or adjective of one in `language` or English; "Island" is one in German only."""
    folded = fold(name)
    codes = (_codes(each).get(folded, _NO_PLACE) for each in _with_english(language))
    return any(code != _NO_PLACE for code in codes) or any(folded in group for group in _synonyms())


def names_country(text: str, language: str | None) -> set[str]:
    """The codes of the countries that a text names, or has an adjective of, in `language` or in English."""
    tokens = tokenize(text)
    joined = f" {' '.join(token.word for token in tokens)} "
    found = {
        by_word("countries")[token.word] for token in tokens if token.word in by_word("countries")
    }
    ending = pattern_of("country_ending")
    adjectives = [
        token.word
        for token in tokens
        if len(token.word) > _MIN_STEM
        and (token.is_capitalized or (language != "en" and ending.search(token.word)))
    ]
    for each in _with_english(language):
        found |= {code for name, code in _country_names(each).items() if f" {name} " in joined}
        stems = _country_stems(each)
        starts = (word[:end] for word in adjectives for end in range(_MIN_STEM, _MAX_STEM))
        found |= {stems[start] for start in starts if start in stems}
    return found


def _with_english(language: str | None) -> tuple[str, ...]:
    return ("en",) if language not in LANGUAGES or language == "en" else (language, "en")


@cache
def _synonyms() -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(phrases(listed)) for listed in table("places")["all"])


@cache
def _names(language: str) -> Mapping[str, str]:
    locale = Locale(language)
    # CLDR leaves out what the name of the time zone says.
    english = {
        zone: zone.rpartition("/")[2].replace("_", " ")
        for zone in map(str, Locale("de").time_zones)
    }
    cities = {str(zone): data["city"] for zone, data in locale.time_zones.items() if "city" in data}
    countries = {
        str(code): name for code, name in locale.territories.items() if str(code).isalpha()
    }
    return (english if language == "en" else {}) | cities | countries


@cache
def _codes(language: str) -> Mapping[str, str]:
    return {fold(name): code for code, name in _names(language).items()}


@cache
def _country_names(language: str) -> Mapping[str, str]:
    return {
        " ".join(token.word for token in tokenize(name)): code
        for code, name in _names(language).items()
        if len(code) == 2 and code not in _NO_COUNTRIES
    }


@cache
def _country_stems(language: str) -> Mapping[str, str]:
    """Beginnings of adjectives that begin as the country's name does, such as "eston" of Estonia."""
    known = set(by_word("countries").values()) if language == "en" else set()
    return {
        stem if len(stem := name.rstrip("aeiouy")) >= _MIN_STEM else name: code
        for name, code in _country_names(language).items()
        if " " not in name and len(name) >= _MIN_STEM and code not in known
    }
