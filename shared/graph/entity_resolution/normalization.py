"""When two names are the same name: what of their spelling does not tell things apart is folded away."""

import re
import unicodedata
from dataclasses import dataclass
from typing import Final


def _listed(words: str) -> frozenset[str]:
    return frozenset(each.strip() for each in words.split(","))


_LEGAL_FORMS: Final = _listed(
    """
    inc, incorporated, corp, corporation, ltd, limited, llc, llp, lp, plc, co, and co, company, holding, holdings,
    ag, se, sa, sas, sarl, spa, s p a, srl, gmbh, mbh, kg, co kg, and co kg, kgaa, nv, bv, oy, oyj, ab, publ, asa, as,
    a s, aps, kk, pte, pty, tbk, bhd
    """
)
"""At the end of an organisation's name. Words that are part of names (Group, Bank) are not among them."""
_LONGEST_FORM_WORDS: Final = 3
_NOT_FOUNDED: Final = _listed(
    """
    product, model, device, vehicle, drug, place, city, town, country, region, state, province, river, mountain,
    person, people, event, date, period, law, regulation, standard, technology, material, chemical, element, language,
    topic, measure, work, book
    """
)
"""Last words of types whose things nobody incorporates: an iPhone SE is no iPhone."""
_LEAST_WITHOUT_ARTICLE: Final = 4
"""Letters that must be left of a name without its "the": The Who is not the WHO."""

_LETTERS: Final = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe", "ı": "i", "&": " and ", "'": "", "’": ""}
)
"""Latin letters that Unicode does not take apart, and signs that are read or left out."""
_KEPT_SIGNS: Final = "#%@"
"""C# is not C; of other punctuation only that it parts words is kept."""
_ABBREVIATED: Final = re.compile(r"\b(?:[^\W\d_]\.){2,}|\b[^\W\d_](?:\.[^\W\d_])+\b")
_MAX_ROUNDS: Final = 8

_EXCHANGES: Final = (
    "NASDAQ|NYSE|NYSE American|NYSE Arca|AMEX|OTC|OTCMKTS|LSE|LON|AIM|XETRA|XETR|ETR|FRA|FWB|EPA|PAR|AMS|BRU|EBR|"
    "Euronext|SIX|SWX|VTX|BIT|BME|STO|HEL|CPH|OSL|WSE|TSX|TSXV|TSE|TYO|JPX|HKEX|HKG|SEHK|SSE|SHA|SZSE|SHE|KRX|KOSPI|"
    "KOSDAQ|TWSE|TPE|NSE|BSE|ASX|NZX|SGX|IDX|SET|JSE|BVMF|B3|BMV|TASE|TADAWUL"
)
_TICKER: Final = re.compile(
    rf"[\s,]*[(\[]?\b(?:{_EXCHANGES})\s*:\s*([A-Za-z0-9][A-Za-z0-9.\-]{{0,9}})[)\]]?\s*$", re.I
)
"""`NASDAQ: NVDA`, at the end of a name or all of it."""
_SHORT: Final = re.compile(r"\s*[(\[]([A-Z][A-Z.&]{2,7})[)\]]\s*$")
"""`(NVDA)`, at the end of a name."""
_PARTS: Final = re.compile(r"\d+|[^\W\d_]+")
"""Runs of digits, and of letters."""
_MARKING: Final = _listed(
    """
    ii, iii, iv, vi, vii, viii, ix, xi, xii, jan, january, feb, february, mar, march, apr, april, may, jun, june,
    jul, july, aug, august, sep, september, sept, oct, october, nov, november, dec, december
    """
)
"""Numerals and months."""


@dataclass(frozen=True)
class Reading:
    """A name as it is known by: two things of one type whose keys are equal are one thing."""

    key: str
    also: tuple[str, ...] = ()
    """Keys of what the name itself says the thing is called besides: its ticker, its initials."""


def read(name: str, type_name: str) -> Reading:
    """`name` is normal (see `values.normal_name`); what of it tells things apart depends on the type a little."""
    bare, short = _split(name)
    main = key(bare, type_name)
    also = key(short, type_name) if short else main
    return Reading(main, (also,) if also != main else ())


def key(name: str, type_name: str = "") -> str:
    """Never empty where the name is not; the key of a key is itself."""
    folded = name
    for _ in range(_MAX_ROUNDS):
        again = _folded(folded, is_founded=_is_founded(type_name))
        if again == folded:
            break
        folded = again
    return folded


def marks(of_key: str) -> tuple[str, ...]:
    """What tells things apart however alike they are spelled: numbers, months, numerals, single letters; sorted.

    It is asked of all names that stand beside a new one, and most words of those are letters through and through.
    """
    found: list[str] = []
    for word in of_key.split():
        if not word.isalpha():
            found += filter(_tells_apart, _PARTS.findall(word))
        elif len(word) == 1 or word in _MARKING:
            found.append(word)
    found.sort()
    return tuple(found)


def _tells_apart(part: str) -> bool:
    return len(part) == 1 or part in _MARKING or part.isdecimal()


def _split(name: str) -> tuple[str, str]:
    """The name without a ticker or initials at its end, and those; empty where there are none."""
    if listed := _TICKER.search(name):
        return name[: listed.start()].strip() or listed[1], listed[1]
    short = _SHORT.search(name)
    if short and _abbreviates(short[1], name[: short.start()]):
        return name[: short.start()].strip(), short[1]
    return name, ""


def _abbreviates(short: str, name: str) -> bool:
    """Whether its letters stand in `name` in their order, the first of both the same: Georgia (USA) is not called USA."""
    letters = (letter for letter in name.upper() if letter.isalnum())
    wanted = [letter for letter in short.upper() if letter.isalnum()]
    return name.strip()[:1].upper() == wanted[0] and all(each in letters for each in wanted)


def _is_founded(type_name: str) -> bool:
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", type_name)
    return not words or words[-1].lower() not in _NOT_FOUNDED


def _folded(name: str, *, is_founded: bool) -> str:
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    plain = _ABBREVIATED.sub(lambda match: match[0].replace(".", ""), plain)
    words = "".join(map(_parted, _without_marks(plain.translate(_LETTERS)))).split()
    kept = _without_forms(words) if is_founded else words
    kept = _without_article(kept)
    return " ".join(kept) or " ".join(plain.split())


def _without_marks(text: str) -> str:
    """Without accents of Latin letters; in other scripts they make letters of their own (и, й)."""
    if text.isascii():
        return text
    kept: list[str] = []
    latin = False
    for character in unicodedata.normalize("NFD", text):
        if not unicodedata.combining(character):
            latin = unicodedata.name(character, "").startswith("LATIN")
        elif latin:
            continue
        kept.append(character)
    return unicodedata.normalize("NFC", "".join(kept))


def _parted(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Cf":
        return ""
    is_word = category[0] in "LNMS" or character in _KEPT_SIGNS
    return character if is_word else " "


def _without_forms(words: list[str]) -> list[str]:
    for count in range(_LONGEST_FORM_WORDS, 0, -1):
        if len(words) > count and " ".join(words[-count:]) in _LEGAL_FORMS:
            return _without_forms(words[:-count])
    return words


def _without_article(words: list[str]) -> list[str]:
    rest = words[1:]
    is_article = words[:1] == ["the"] and len("".join(rest)) >= _LEAST_WITHOUT_ARTICLE
    return rest if is_article else words
