"""The language of a text, by its script and its most frequent words."""

import re
from collections import Counter
from collections.abc import Mapping
from unicodedata import name as character_name

from sandbox.text.tokens import word_set

ENGLISH = "English"
OTHER = "another language"
SAMPLE_CHARS = 3_000
MIN_WORDS = 12
"""A shorter text is not judged by its words."""
MIN_SHARE = 0.06
"""The share of its words that a text in a language has among that language's most frequent words, at least."""
MIN_DIFFERENT = 4
"""How many different ones of them it has, at least."""
MIN_LETTERS = 20
SCRIPTS: Mapping[str, str] = {
    "CJK": "Chinese",
    "HIRAGANA": "Japanese",
    "KATAKANA": "Japanese",
    "HANGUL": "Korean",
    "CYRILLIC": "a language in Cyrillic script",
    "ARABIC": "a language in Arabic script",
    "HEBREW": "Hebrew",
    "GREEK": "Greek",
    "DEVANAGARI": "a language in Devanagari script",
    "THAI": "Thai",
}
MIN_KANA_SHARE = 0.05
"""A text in Chinese characters with this share of kana is Japanese."""
FREQUENT_WORDS: Mapping[str, frozenset[str]] = {
    ENGLISH: word_set(
        "the of and to in is that for it with as on be are this by or from at was which not have has an you will can if its "
        "were their they been more but"
    ),
    "German": word_set(
        "der die das und ist von den mit ein eine für auf nicht dem des im zu sich auch werden wird als sind oder bei nach "
        "einer aus wie durch über kann"
    ),
    "French": word_set(
        "le la les des et est une du pour dans que qui au sur par pas avec ce cette sont aux plus ou il elle ont été"
    ),
    "Spanish": word_set(
        "el la los las de que y en un una para con por es del se no al como su más lo son está fue sus"
    ),
    "Italian": word_set(
        "il la di che e le per un una del della con non sono è dei nel alla si gli anche più come questo al"
    ),
    "Portuguese": word_set(
        "o os as de que e em um uma para com não do da dos das no na se por é ao mais foi são como"
    ),
    "Dutch": word_set(
        "de het een van en dat is op te voor met zijn niet aan er door ook als bij naar worden wordt uit deze"
    ),
    "Swedish": word_set(
        "och att det som en på är av för med den till inte om ett har de kan från eller vid"
    ),
    "Danish": word_set(
        "og at det som en på er af for med den til ikke om et har de kan fra eller ved"
    ),
    "Polish": word_set(
        "na się nie jest że od po jak dla przez są oraz lub może tego ich jego przy tym być"
    ),
    "Czech": word_set(
        "na se je že pro jako za nebo jsou by podle při která aby tak bylo jeho také však ve"
    ),
    "Catalan": word_set(
        "el la els les de que és una amb per del dels al més no com són aquest aquesta si també des"
    ),
    "Turkish": word_set("ve bir bu için ile da de olarak olan daha çok gibi en kadar sonra"),
}
_LETTER_RUN = re.compile(r"[^\W\d_]+")


def language_of(text: str) -> str:
    """The language's name in English; ENGLISH also for a text that gives no sign of another one, such as code or a list."""
    sample = _sample(text)
    letters = [character for character in sample if character.isalpha()]
    if script := _other_script(letters):
        return script
    found = [word.lower() for word in _LETTER_RUN.findall(sample)]
    if len(found) < MIN_WORDS:
        return ENGLISH
    shares = {
        language: sum(word in frequent for word in found) / len(found)
        for language, frequent in FREQUENT_WORDS.items()
    }
    best = max(shares, key=lambda language: shares[language])
    if shares[best] >= MIN_SHARE and len(FREQUENT_WORDS[best].intersection(found)) >= MIN_DIFFERENT:
        return best
    has_marks = sum(not letter.isascii() for letter in letters) > len(letters) * 0.03
    return OTHER if has_marks and len(found) >= 3 * MIN_WORDS else ENGLISH


def _sample(text: str) -> str:
    """The start of a text and its middle: a licence or a heading may be in another language than the rest."""
    if len(text) <= 2 * SAMPLE_CHARS:
        return text
    middle = len(text) // 2
    return f"{text[:SAMPLE_CHARS]} {text[middle : middle + SAMPLE_CHARS]}"


def _other_script(letters: list[str]) -> str:
    """The language or script of most letters; empty if that is Latin, or if there are few letters."""
    others = Counter(letter for letter in letters if ord(letter) > 0x24F)
    if len(letters) < MIN_LETTERS // 4 or others.total() * 2 < len(letters):
        return ""
    counts: Counter[str] = Counter()
    for letter, count in others.items():
        counts[character_name(letter, "").split(" ")[0].partition("-")[0]] += count
    if counts["HIRAGANA"] + counts["KATAKANA"] >= MIN_KANA_SHARE * others.total():
        return SCRIPTS["HIRAGANA"]
    return SCRIPTS.get(counts.most_common(1)[0][0], OTHER)
