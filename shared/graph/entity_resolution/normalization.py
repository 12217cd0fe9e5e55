"""Name normalization: keys, of which equal ones are one name, and folded keys, of which equal ones are spellings of one.

A key keeps accents, signs, superscripts and subscripts, because they distinguish: 10³ is not 103, and -5 is not 5. A folded
key has lost them; it finds the spellings that `comparison` then judges.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from anyascii import anyascii


def _word_set(words: str) -> frozenset[str]:
    return frozenset(word.strip() for word in words.split(","))


_LEGAL_FORMS: Final = _word_set(
    """
    inc, incorporated, corp, corporation, ltd, limited, llc, llp, lp, plc, co, and co, company, holding, holdings,
    ag, se, sa, sas, sarl, spa, s p a, srl, gmbh, mbh, kg, co kg, and co kg, kgaa, nv, bv, oy, oyj, ab, publ, asa, as,
    a s, aps, kk, pte, pty, tbk, bhd
    """
)
"""At the end of an organisation's name. Words that are part of names (Group, Bank) are not included."""
_MAX_LEGAL_FORM_WORDS: Final = 3
_SAME_FORMS: Final = (
    frozenset(_word_set("inc, incorporated, corp, corporation, co, and co, company")),
    frozenset(_word_set("ltd, limited, pte, pty")),
    frozenset(_word_set("ag, se, kgaa")),
    frozenset(_word_set("as, asa, a s")),
    frozenset(_word_set("sa, spa, s p a")),
    frozenset(_word_set("kg, co kg, and co kg")),
    frozenset(_word_set("oy, oyj")),
)
"""Forms of one kind, or of which one often becomes the other."""
_NO_FORMS: Final = _word_set("holding, holdings")
_NON_ORGANISATION_WORDS: Final = _word_set(
    """
    product, model, device, vehicle, drug, place, city, town, country, region, state, province, river, mountain,
    person, people, event, date, period, law, regulation, standard, technology, material, chemical, element, language,
    topic, measure, work, book
    """
)
"""Last words of types whose entities have no legal form: an iPhone SE is no company."""
_MIN_CHARS_WITHOUT_ARTICLE: Final = 4
"""Letters that must remain without "the": The Who is not the WHO."""

_SIGNS_AS_WORDS: Final = str.maketrans({"&": " and ", "'": "", "’": "", "−": "-", "–": "-"})
"""Signs that are read as words, dropped, or written in several ways."""
_MARKS: Final = str.maketrans({"™": "", "®": ""})
_SIGNIFICANT_SIGNS: Final = "#%@"
"""C# is not C; all other punctuation only separates words."""
_RAISED_OR_LOWERED: Final = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻₀₁₂₃₄₅₆₇₈₉₊₋"
"""Digits and signs that stay as they are: 10³ is not 103."""
_PLAIN_RUN: Final = re.compile(f"[^{_RAISED_OR_LOWERED}]+")
_SIGN_OF_NUMBER: Final = re.compile(r"(?<![^\s(])-(?=\d)")
_MINUS: Final = "\ue000"
"""Stands for the minus of a number while other hyphens are replaced."""
_QUALIFIED: Final = re.compile(r"(.*[^\s(])\s*\(([^()]*[^\s()][^()]*)\)\s*")
"""`Springfield (Illinois)`: a name, and what distinguishes it from others of the same name."""
_DOTTED_ABBREVIATION: Final = re.compile(r"\b(?:[^\W\d_]\.){2,}|\b[^\W\d_](?:\.[^\W\d_])+\b")
_MAX_ROUNDS: Final = 8

_EXCHANGES: Final = (
    "NASDAQ|NYSE|NYSE American|NYSE Arca|AMEX|OTC|OTCMKTS|LSE|LON|AIM|XETRA|XETR|ETR|FRA|FWB|EPA|PAR|AMS|BRU|EBR|"
    "Euronext|SIX|SWX|VTX|BIT|BME|STO|HEL|CPH|OSL|WSE|TSX|TSXV|TSE|TYO|JPX|HKEX|HKG|SEHK|SSE|SHA|SZSE|SHE|KRX|KOSPI|"
    "KOSDAQ|TWSE|TPE|NSE|BSE|ASX|NZX|SGX|IDX|SET|JSE|BVMF|B3|BMV|TASE|TADAWUL"
)
_TICKER: Final = re.compile(
    rf"(?<![\s,])[\s,]*+[(\[]?\b(?:{_EXCHANGES})\s*:\s*([A-Za-z0-9][A-Za-z0-9.\-]{{0,9}})[)\]]?\s*$",
    re.I,
)
"""`NASDAQ: NVDA`, at the end of a name or all of it."""
_INITIALS: Final = re.compile(r"(?<!\s)\s*+[(\[]([A-Z][A-Z.&]{2,7})[)\]]\s*$")
"""`(NVDA)`, at the end of a name."""
_DIGITS_OR_LETTERS: Final = re.compile(r"\d+|[^\W\d_]+")
"""Runs of digits, and of letters."""
_DISCRIMINATOR_WORDS: Final = _word_set(
    """
    ii, iii, iv, vi, vii, viii, ix, xi, xii, jan, january, feb, february, mar, march, apr, april, may, jun, june,
    jul, july, aug, august, sep, september, sept, oct, october, nov, november, dec, december,
    first, second, third, fourth, fifth, sixth, seventh, eighth, ninth, tenth
    """
)
"""Numerals and months."""
_ROMAN: Final = re.compile(r"(?=[ivxl]{2})(?:xl|l?x{0,3})(?:ix|iv|v?i{0,3})")


@dataclass(frozen=True)
class NormalizedName:
    """A name as it is reserved: each key of a type belongs to one node."""

    key: str
    also: tuple[str, ...] = ()
    """Keys of other names contained in the name: its ticker, its initials."""

    @property
    def base(self) -> str:
        """The key without what distinguishes it: nodes with equal bases have one name."""
        return split_qualifier(self.key)[0]


def split_qualifier(name: str) -> tuple[str, str]:
    """The name, and what distinguishes it from others of the same name; empty if it has nothing of the kind."""
    match = _QUALIFIED.fullmatch(name)
    return (match[1].strip(), " ".join(match[2].split())) if match else (name, "")


@lru_cache(maxsize=1024)
def normalize(name: str, type_name: str) -> NormalizedName:
    """Normalize a name, which must have passed `validation.normalize_name`; the type has a small influence."""
    full_name, short_name = _split_short_name(name)
    main_key = normalize_key(full_name, type_name)
    short_key = normalize_key(short_name, type_name) if short_name else main_key
    return NormalizedName(main_key, (short_key,) if short_key != main_key else ())


def normalize_key(name: str, type_name: str = "") -> str:
    """The normalized form of a name; never empty unless the name is. Normalizing twice changes nothing."""
    normalized, is_founded = name.strip() or " "[: len(name)], _can_be_founded(type_name)
    for _ in range(_MAX_ROUNDS):
        next_form = _normalize_once(normalized, is_founded=is_founded)
        # A name can consist of nothing but marks, such as "®".
        if next_form == normalized or not next_form.strip():
            break
        normalized = next_form
    return normalized


def _can_be_founded(type_name: str) -> bool:
    type_words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", type_name)
    return not type_words or type_words[-1].lower() not in _NON_ORGANISATION_WORDS


def legal_forms(name: str, type_name: str) -> frozenset[str]:
    """The kinds of legal forms at the end of a name, each by one of its forms."""
    if not _can_be_founded(type_name):
        return frozenset()
    base, _ = split_qualifier(_split_short_name(name)[0])
    name_words, found = _join_words(_compose(base), is_founded=False).split(), set[str]()
    while (count := _count_legal_form_words(name_words)) and len(name_words) > count:
        form = " ".join(name_words[-count:])
        kind = next((min(forms) for forms in _SAME_FORMS if form in forms), form)
        found |= {kind} - _NO_FORMS
        name_words = name_words[:-count]
    return frozenset(found)


def discriminators(name_key: str) -> tuple[str, ...]:
    """What distinguishes similar names: numbers, months, numerals and single letters; sorted.

    Called for every neighbour of a new name, most of which consist of plain words.
    """
    parts: list[str] = []
    for word in name_key.split():
        if not word.isalpha():
            parts += filter(_is_discriminator, _DIGITS_OR_LETTERS.findall(word))
        elif len(word) == 1 or word in _DISCRIMINATOR_WORDS or _ROMAN.fullmatch(word):
            parts.append(word)
    parts.sort()
    return tuple(parts)


def _is_discriminator(part: str) -> bool:
    return len(part) == 1 or part in _DISCRIMINATOR_WORDS or part.isdecimal()


def _split_short_name(name: str) -> tuple[str, str]:
    """The name without a ticker or initials at its end, and those; empty if there are none."""
    if ticker := _TICKER.search(name):
        return name[: ticker.start()].strip() or ticker[1], ticker[1]
    initials = _INITIALS.search(name)
    if initials and _abbreviates(initials[1], name[: initials.start()]):
        return name[: initials.start()].strip(), initials[1]
    return name, ""


def _abbreviates(short: str, name: str) -> bool:
    """Whether the letters of `short` occur in `name` in this order.

    The first letter must be the same: Georgia (USA) is not USA.
    """
    name_letters = (letter for letter in name.upper() if letter.isalnum())
    short_letters = [letter for letter in short.upper() if letter.isalnum()]
    return name.strip()[:1].upper() == short_letters[0] and all(
        letter in name_letters for letter in short_letters
    )


def _normalize_once(name: str, *, is_founded: bool) -> str:
    plain = _compose(name)
    base, qualifier = split_qualifier(plain)
    key = _join_words(base, is_founded=is_founded)
    return f"{key} ({_join_words(qualifier, is_founded=False)})" if qualifier else key


def _compose(name: str) -> str:
    """Fold case and compatible characters, but for raised and lowered digits, and write signs in one way."""
    return _PLAIN_RUN.sub(_fold_case, name.translate(_MARKS)).translate(_SIGNS_AS_WORDS)


def _fold_case(run: re.Match[str]) -> str:
    folded = unicodedata.normalize("NFKC", run[0]).casefold()
    return unicodedata.normalize("NFKC", folded)


def _join_words(text: str, *, is_founded: bool) -> str:
    plain = _DOTTED_ABBREVIATION.sub(lambda match: match[0].replace(".", ""), text)
    plain = _SIGN_OF_NUMBER.sub(_MINUS, plain)
    words = "".join(map(_replace_punctuation, plain)).replace(_MINUS, "-").split()
    remaining = _strip_legal_forms(words) if is_founded else words
    if remaining[:1] == ["the"] and len("".join(remaining[1:])) >= _MIN_CHARS_WITHOUT_ARTICLE:
        remaining = remaining[1:]
    return " ".join(remaining) or " ".join(text.split())


@lru_cache(maxsize=4096)
def fold_key(key: str) -> str:
    """A key without accents, signs, raised and lowered digits and brackets: equal for the spellings of one name.

    Earlier versions stored keys in this form.
    """
    if key.isascii() and key.replace(" ", "").isalnum():
        return key
    text = unicodedata.normalize("NFKC", _strip_accents(key)).translate(_LETTERS)
    return " ".join("".join(map(_replace_punctuation, text)).split()) or key


_LETTERS: Final = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe", "ı": "i", "−": " ", "⁻": " ", "₋": " "}
)
"""Latin letters that Unicode does not decompose."""


@lru_cache(maxsize=4096)
def transliterate(key: str) -> str:
    """The folded key in Latin letters, to compare names of different scripts."""
    folded = fold_key(key)
    return folded if folded.isascii() else " ".join(anyascii(folded).lower().split()) or folded


def _strip_accents(text: str) -> str:
    """Strip accents from Latin letters; in other scripts they form letters of their own (и, й)."""
    if text.isascii():
        return text
    characters: list[str] = []
    is_latin = False
    for character in unicodedata.normalize("NFD", text):
        if not unicodedata.combining(character):
            is_latin = unicodedata.name(character, "").startswith("LATIN")
        elif is_latin:
            continue
        characters.append(character)
    return unicodedata.normalize("NFC", "".join(characters))


def _replace_punctuation(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Cf":
        return ""
    is_word = category[0] in "LNMS" or character in _SIGNIFICANT_SIGNS or character == _MINUS
    return character if is_word else " "


def _strip_legal_forms(words: list[str]) -> list[str]:
    while count := _count_legal_form_words(words):
        words = words[:-count]
    return words


def _count_legal_form_words(words: list[str]) -> int:
    """How many words at the end are a legal form, if others remain; 0 if none are."""
    for count in range(_MAX_LEGAL_FORM_WORDS, 0, -1):
        if len(words) > count and " ".join(words[-count:]) in _LEGAL_FORMS:
            return count
    return 0
