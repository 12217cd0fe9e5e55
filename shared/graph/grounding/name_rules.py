"""The outcomes of names and identifiers that a write claims, and who is named. Pure."""

import re
from collections.abc import Sequence, Set
from typing import Final

from shared.graph.grounding.date_rules import LIMITED_BY, name_parts
from shared.graph.grounding.names import (
    contains,
    is_mentioned,
    is_noun_form,
    is_place_name,
    name_words,
    names_country,
    tokenize,
)
from shared.graph.grounding.outcomes import (
    MATCHED,
    Level,
    Outcome,
    left_out,
    unread,
)
from shared.graph.grounding.passages import (
    IN_PLACE,
    Reading,
    Write,
    has_office,
    is_any_mentioned,
    without_office,
)
from shared.graph.grounding.words import (
    STEM_LENGTH,
    fold,
    is_function_word,
    role_stems,
    word_set,
)

MAX_NAME_WORDS: Final = 6
_SPEAKERS: Final = frozenset(("speaker", "spokesperson", "author", "said_by"))
_COUNTRIES: Final = frozenset(("country", "nationality", "land", "staat", "pays", "pais", "paese"))
_PLACES: Final = frozenset(("place", "location", "city", "venue", "country", "region"))
IDENTIFIER: Final = re.compile(
    r"(?<!\w)(?=[\w.-]*\d)(?:[A-Za-z]+-\d[\w-]*|v?\d+(?:\.[\dx]+)+|\w*[^\W\d_]\w*)(?!\w)"
)
SCORE: Final = re.compile(r"\d{1,3}\s?[-–:]\s?\d{1,3}")
_VERSION: Final = re.compile(r"v?\d+(?:\.[\dx]+)+")
SENTENCE_ENDS: Final = (".", "!", "?")
_TOLD: Final = frozenset(("told", "tells"))

_MIN_DIGITS: Final = 7


class NameRules:
    """Checks names and identifiers."""

    def __init__(self, write: Write) -> None:
        self._write = write

    @property
    def can_miss_names(self) -> bool:
        """Whether a name that is not found is not there."""
        return self._write.passages.is_readable and self._write.passages.has_pages

    @property
    def refers(self) -> bool:
        """Whether a sentence has a word that can mean what another sentence names."""
        return bool(self._write.passages.words & word_set("referring"))

    def _is_on_page(self, names: Sequence[str]) -> bool:
        passages = self._write.passages
        return any(is_mentioned(name, passages.page_texts) for name in names)

    def may_be_meant(self, names: Sequence[str]) -> bool:
        """Whether the sentences may mean a thing that they do not name.

        The page names it in its title or heading, or elsewhere while a word of the sentences refers to something.
        """
        passages = self._write.passages
        if any(self._has_number_of(name) for name in names):
            return True
        if is_any_mentioned(names, passages.around):
            return True
        if self.is_meant_by_noun(names):
            return True
        return self.refers and (self._is_on_page(names) or self._has_words_of(names))

    def is_meant_by_noun(self, names: Sequence[str]) -> bool:
        """Whether a sentence has a noun of a name of the page, as "the institute" of "Institute of Metals"."""
        if not self._is_on_page(names):
            return False
        common = {
            token.word
            for reading in self._write.passages.readings
            for token in tokenize(reading.text)
            if not token.is_capitalized
        }
        nouns = {
            token.word
            for name in names
            for token in tokenize(name)
            if token.is_capitalized and _is_telling(token.word) and " " in name
        }
        return bool(common & nouns)

    def is_description(self, name: str) -> bool:
        """Whether a name describes by its form, so that it is a label whatever its type says.

        After a capital it has a common word, as "Trident's bid" has, or it begins with a word that the pages have in small
        letters, before a number or "of", as "Offer of Trident".
        """
        tokens = tokenize(name)
        if not tokens or not tokens[0].is_capitalized:
            return False
        rest = tokens[1:]
        if any(not each.is_capitalized and _is_telling(each.word) for each in rest):
            # Without a proper name, the page has to speak of it.
            return any(each.is_capitalized for each in rest) or self.has_words(name)
        is_joined = bool(rest) and (is_function_word(rest[0].word) or rest[0].word[0].isdigit())
        return is_joined and any(
            not each.is_capitalized and is_noun_form(each.word, tokens[0].word)
            for text in self._write.passages.page_texts
            for each in tokenize(text)
        )

    @property
    def has_unnamed_holder(self) -> bool:
        """Whether a sentence means someone by an office alone: "the Danish minister said" has no name but of a place."""
        return any(_has_unnamed_holder(reading) for reading in self._write.passages.readings)

    def _has_words_of(self, names: Sequence[str]) -> bool:
        """Whether the pages have the telling words of a name of several in any order."""
        words = {token.word for text in self._write.passages.page_texts for token in tokenize(text)}
        return any(_are_words_of(name, words) for name in names)

    def has_words_apart(self, name: str) -> bool:
        """Whether a sentence has the telling words of a name of several, but not in other names of several words.

        "A new plant in Essen" has those of "Essen plant".
        """
        return any(
            _are_words_of(name, _words_apart(each)) for each in self._write.passages.readings
        )

    def has_with_version(self, name: str) -> bool:
        """Whether a sentence has all words of a name with a number, as "version 3.1 of Alizéo" has "Alizéo 3.1"."""
        words = name.split()
        return any(any(each.isdigit() for each in word) for word in words) and any(
            all(contains(word, [sentence]) for word in words)
            for sentence in self._write.passages.sentences
        )

    def _has_number_of(self, name: str) -> bool:
        """Whether a sentence has the number in a name, such as "612" of a road, or its version."""
        numbers = re.findall(r"\d[\d.]*\d", name)
        return any(contains(number, self._write.passages.sentences) for number in numbers)

    def is_name(self, text: str) -> bool:
        tokens = tokenize(text)
        if not 0 < len(tokens) <= MAX_NAME_WORDS or text.endswith(SENTENCE_ENDS) or "," in text:
            return False
        particles = word_set("particles") | word_set("articles")
        return (
            all(token.is_capitalized or token.word in particles for token in tokens)
            and tokens[-1].is_capitalized
        )

    def identifier(self, name: str, text: str) -> Outcome:
        """The outcome of a version, number of a law and the like."""
        if not contains(text, self._write.passages.sentences):
            if self._write.passages.may_have(text.replace("–", "-")) or self._has_digits_of(text):
                return unread(f"{text!r} has another form there")
            if contains(text, self._write.passages.around):
                return unread("only the title has it")
            return left_out(f"{text!r} is not in the cited sentences")
        if SCORE.fullmatch(text):
            scores = {
                match[0]
                for each in self._write.passages.sentences
                for match in SCORE.finditer(each)
            }
            return (
                MATCHED
                if scores == {text} and name in ("score", "result")
                else unread("the sentences can say it of something else")
            )
        if any(
            LIMITED_BY.search(fold(each[: each.find(text)])[-24:])
            for each in self._write.passages.sentences
            if text in each
        ):
            return unread("the sentence gives a limit")
        alike = _VERSION if _VERSION.fullmatch(text) else IDENTIFIER
        found = {
            match[0].rstrip(".")
            for sentence in self._write.passages.sentences
            for match in alike.finditer(sentence)
            if any(each.isdigit() for each in match[0])
        }
        stems = role_stems(name)
        fits = any(word.startswith(stems) for word in self._write.passages.words) or fold(name) in (
            "id",
            "cve",
            "number",
        )
        is_plain = all(reading.is_plain for reading in self._write.passages.readings)
        return (
            MATCHED
            if found <= {text} and fits and is_plain
            else unread("the sentences can say it of something else")
        )

    def name(self, name: str, text: str) -> Outcome:
        passages, words = self._write.passages, set(re.split(r"[^a-z]+", fold(name)))
        if (country := self._country(text)) is not None:
            if words <= _COUNTRIES or country.level is not Level.MATCHED:
                return country
            return unread("rules cannot check what the country is to the rest")
        named = passages.is_named(self._names_of(text))
        if named is False:
            return self._missing_name(text)
        if named is None:
            return unread(f"the sentences may mean {text!r}")
        person = without_office(text)
        full = passages.full_names(person) if " " not in person else set()
        is_known = any(fold(text) == fold(each) for names in self._write.known for each in names)
        if (
            len(full) == 1
            and not is_known
            and _is_person(completed := next(iter(full)))
            and completed != text
            and not has_office(completed)
        ):
            return Outcome(Level.COMPLETED, "the full name is on the page", completed)
        if full and not is_known:
            return unread(f"{text!r} can be more than one")
        forms = [
            *self._names_of(text),
            *(short for each in self._names_of(text) for short in passages.short_forms(each)),
        ]
        if words & _SPEAKERS:
            return (
                MATCHED
                if self._speaks(forms)
                else unread("the sentences do not say that it speaks")
            )
        naming = [
            each
            for each in passages.readings
            if any(is_mentioned(form, [each.text]) for form in forms)
        ]
        if words & _PLACES and all(reading.is_plain for reading in naming):
            places = self._places()
            if places and {fold(each) for each in places} <= {fold(each) for each in forms}:
                return MATCHED
        if self._is_called(name, forms):
            return MATCHED
        return unread("rules cannot check what a name does in a sentence")

    def _has_digits_of(self, text: str) -> bool:
        """Whether a sentence has the digits of a long number in another notation, such as that of a telephone."""
        digits = re.sub(r"\D", "", text)
        return len(digits) >= _MIN_DIGITS and any(
            digits.strip("0") in re.sub(r"\D", "", sentence)
            for sentence in self._write.passages.sentences
        )

    def _is_called(self, role: str, forms: Sequence[str]) -> bool:
        """Whether the word for the role stands directly before the name, as in "Judge Petra Quill"."""
        parts = [part for part in name_parts(role) if part not in word_set("general_parts")]
        if len(parts) != 1:
            return False
        for reading in self._write.passages.readings:
            tokens = tokenize(reading.text)
            for place, token in enumerate(tokens[:-1]):
                following = reading.text[tokens[place + 1].start :]
                if token.word == parts[0] and any(following.startswith(form) for form in forms):
                    return True
        return False

    def _names_of(self, text: str) -> list[str]:
        """`text`, and what the graph calls the node of that name."""
        known = [name for names in self._write.known if text in names for name in names]
        return list(dict.fromkeys([text, *known]))

    def _missing_name(self, text: str) -> Outcome:
        passages = self._write.passages
        if not self.can_miss_names or is_name_of_site(text, [page.site for page in passages.pages]):
            return unread(f"rules cannot tell whether the sentences mean {text!r}")
        if any(is_mentioned(text, [each]) for each in passages.around) or self._has_translation(
            text
        ):
            return unread(f"{text!r} has another form, or stands only in the title")
        if self.has_unnamed_holder or self.may_be_meant([text, *self._names_of(text)]):
            return unread(f"the sentences may mean {text!r}")
        if self._is_common(text):
            return unread(f"{text!r} may have another form")
        return left_out(f"no cited sentence names {text!r}")

    def _has_translation(self, text: str) -> bool:
        """Whether the sentences have a country or city that is a part of the name, or of which the name is a part."""
        passages = self._write.passages
        codes = names_country(text, "en")
        found = {
            code for each in passages.readings for code in names_country(each.text, each.language)
        }
        return bool(codes & found) or passages.may_have(text)

    def _is_common(self, text: str) -> bool:
        """Whether it may be no proper name, but a word with a capital."""
        languages = {reading.language for reading in self._write.passages.readings}
        return " " not in text and (
            "de" in languages
            or any(
                fold(text)[:STEM_LENGTH] == word[:STEM_LENGTH]
                for word in self._write.passages.words
            )
        )

    def _country(self, text: str) -> Outcome | None:
        """The outcome of a country; None if `text` is none."""
        if not is_place_name(text, "en") and not any(
            is_place_name(text, reading.language) for reading in self._write.passages.readings
        ):
            return None
        if not (
            names_country(text, "en")
            or any(names_country(text, each.language) for each in self._write.passages.readings)
        ):
            return None  # It is a city.
        if not self._write.passages.is_readable:
            return unread("rules do not know the language of the page")
        found = {
            code
            for reading in self._write.passages.readings
            for code in names_country(reading.text, reading.language)
        }
        codes = names_country(text, "en") | {
            code
            for reading in self._write.passages.readings
            for code in names_country(text, reading.language)
        }
        if not codes & found:
            return left_out(f"no cited sentence names {text!r}")
        if found > codes or not found <= codes:
            return unread("the sentences name other countries")
        for reading in self._write.passages.readings:
            for each in reading.names:
                if any(
                    is_mentioned(one, [each.text]) for one in self._write.own
                ) and codes & names_country(each.text, reading.language):
                    return MATCHED
        others = [
            each
            for each in self._write.passages.other_names(
                [*self._write.own, self._write.label, text]
            )
            if not names_country(each, "en")
        ]
        is_plain = all(reading.is_plain for reading in self._write.passages.readings)
        return unread("the sentences name others too") if others or not is_plain else MATCHED

    def _places(self) -> list[str]:
        """Names after "in" and the like."""
        return [
            name.text
            for reading in self._write.passages.readings
            for name in reading.names
            if IN_PLACE.search(reading.text[max(0, name.start - 8) : name.start])
        ]

    def _speaks(self, forms: Sequence[str]) -> bool:
        """Whether one of the names stands beside a verb of saying, and no other name does."""
        verbs = word_set("saying")
        speakers = []
        for reading in self._write.passages.readings:
            tokens = tokenize(reading.text)
            for name in reading.names:
                before = [token.word for token in tokens if token.end <= name.start][-3:]
                after = [token.word for token in tokens if token.start >= name.end][:3]
                is_object = bool(_TOLD & {*before}) or IN_PLACE.search(
                    reading.text[max(0, name.start - 8) : name.start]
                )
                if not self._write.passages.is_sure(name, reading.language) and name.start:
                    continue
                if verbs.intersection(after) or (verbs.intersection(before) and not is_object):
                    speakers.append(name.text)
        mine = [each for each in speakers if any(is_mentioned(form, [each]) for form in forms)]
        return bool(mine) and len(mine) == len(speakers)

    def has_words(self, name: str, names: Sequence[str] = ()) -> bool:
        """Whether each telling word of the name is in some form on the pages, or in one of `names`."""
        texts = [*self._write.passages.page_texts, *names]
        known = {token.word[:STEM_LENGTH] for text in texts for token in tokenize(text)}
        return all(
            word[:STEM_LENGTH] in known or is_function_word(word) or word in word_set("no_names")
            for word in name_words(name)
        )


def _is_telling(word: str) -> bool:
    """Whether it is a word by itself, and none that joins names."""
    joints = word_set("particles") | word_set("articles") | word_set("legal_forms")
    return len(word) > 1 and not is_function_word(word) and word not in joints


def _are_words_of(name: str, words: Set[str]) -> bool:
    own = [each for each in name_words(name) if not is_function_word(each)]
    return len(own) > 1 and all(
        any(word[:STEM_LENGTH] == each[:STEM_LENGTH] for word in words) for each in own
    )


def _words_apart(reading: Reading) -> set[str]:
    longer = [name for name in reading.names if " " in name.text]
    return {
        token.word
        for token in tokenize(reading.text)
        if not any(name.start <= token.start < name.end for name in longer)
    }


def _has_unnamed_holder(reading: Reading) -> bool:
    ends = tuple(word_set("holder_ends"))
    holders = [
        token
        for token in tokenize(reading.text)
        if token.word in word_set("holders") or token.word.endswith(ends)
    ]
    named = [
        name
        for name in reading.names
        if name.is_certain
        and not is_place_name(name.text, reading.language)
        and not any(name.end in (each.start - 1, each.end) for each in holders)
    ]
    return bool(holders) and not named


def is_name_of_site(name: str, sites: Sequence[str]) -> bool:
    """Whether a name is written like one of the sites, as "Harbour Ledger" is like harbourledger.example."""
    plain = re.sub(r"[^a-z0-9]", "", fold(name)).removeprefix("the")
    labels = {re.sub(r"[^a-z0-9]", "", label) for site in sites for label in site.split(".")[:-1]}
    return bool(plain) and any(plain == label.removeprefix("the") for label in labels)


def _is_person(name: str) -> bool:
    """Whether a full name may be that of a person: two to four words in small letters with a capital."""
    words = name.split()
    return 2 <= len(words) <= 4 and all(
        word[0].isupper()
        and word[1:].replace("-", "").replace("'", "").isalpha()
        and not word[1:].isupper()
        for word in words
    )
