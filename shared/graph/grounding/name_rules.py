"""The outcomes of names and identifiers that a write claims, and who is named. Pure."""

import re
from collections.abc import Sequence, Set
from typing import Final

from shared.graph.grounding.names import (
    Name,
    Token,
    contains,
    is_form_of,
    is_mentioned,
    is_place_name,
    name_words,
    names_country,
    tokenize,
)
from shared.graph.grounding.passages import (
    MATCHED,
    UNREAD,
    Level,
    Outcome,
    Passages,
    has_office,
    is_any_mentioned,
    left_out,
    without_office,
)
from shared.graph.grounding.words import (
    STEM_LENGTH,
    fold,
    is_function_word,
    name_parts,
    role_stems,
    word_set,
)

MAX_NAME_WORDS: Final = 6
IDENTIFIER: Final = re.compile(
    r"(?<!\w)(?=[\w.-]*\d)(?:[A-Za-z]+-\d[\w-]*|v?\d+(?:\.[\dx]+)+|\w*[^\W\d_]\w*)(?!\w)"
)
SCORE: Final = re.compile(r"\d{1,3}\s?[-–:]\s?\d{1,3}")
SENTENCE_ENDS: Final = (".", "!", "?")


class NameRules:
    """Checks names and identifiers."""

    def __init__(self, passages: Passages) -> None:
        self._passages = passages

    @property
    def refers(self) -> bool:
        """Whether a sentence has a word that can mean what another sentence names."""
        return bool(self._passages.words & word_set("referring"))

    def may_be_meant(self, names: Sequence[str]) -> bool:
        """Whether the sentences may mean a thing that they do not name.

        They have its number, as "612" of a road, or the page names it while a word of the sentences refers to something.
        """
        return self.has_number_of(names) or (
            self.refers
            and (
                is_any_mentioned(names, self._passages.page_texts)
                or any(_are_words_of(each, self._passages.page_words) for each in names)
            )
        )

    def has_number_of(self, names: Sequence[str]) -> bool:
        """Whether a sentence has the number of a name, or a later one of its version, as "8.1.4" of "Alizéo 8.1"."""
        numbers = {each for name in names for each in re.findall(r"\d[\d.]*\d", name)}
        patterns = [rf"(?<![\w.]){re.escape(each)}(?:\.\d+)*(?!\w)" for each in numbers]
        return any(re.search(each, text) for each in patterns for text in self._passages.sentences)

    def is_meant_by_noun(self, names: Sequence[str]) -> bool:
        """Whether a sentence has a noun of a name of the page, as "the institute" of "Institute of Metals"."""
        nouns = {
            token.word
            for name in names
            for token in tokenize(name)
            if " " in name and token.is_capitalized and not is_function_word(token.word)
        }
        return is_any_mentioned(names, self._passages.page_texts) and any(
            not each.is_capitalized and each.word in nouns
            for text in self._passages.sentences
            for each in tokenize(text)
        )

    def is_description(self, name: str) -> bool:
        """Whether a name describes by its form, so that it is a label whatever its type says.

        After a capital it has a common word, as "Trident's bid" has, or it begins with a word that the pages have in small
        letters, before a number or "of", as "Offer of Trident".
        """
        tokens = tokenize(name)
        if not tokens or not tokens[0].is_capitalized:
            return False
        rest = tokens[1:]
        if any(not each.is_capitalized and _is_common(each.word) for each in rest):
            # Without a proper name, the page has to speak of it.
            return any(each.is_capitalized for each in rest) or self.has_words(name)
        is_joined = bool(rest) and (is_function_word(rest[0].word) or rest[0].word[0].isdigit())
        return is_joined and any(
            not each.is_capitalized and is_form_of(each.word, tokens[0].word)
            for text in self._passages.page_texts
            for each in tokenize(text)
        )

    @property
    def has_unnamed_holder(self) -> bool:
        """Whether a sentence means someone by an office alone: "the Danish minister said" has no name but of a place."""
        ends = tuple(word_set("holder_ends"))
        return any(
            any(each in word_set("holders") or each.endswith(ends) for each in reading.words)
            and not any(
                name.is_certain and not is_place_name(name.text, reading.language)
                for name in reading.names
            )
            for reading in self._passages.readings
        )

    def has_words_apart(self, name: str) -> bool:
        """Whether a sentence has the words of "Essen plant" apart, as "a new plant in Essen", outside longer names."""
        for reading in self._passages.readings:
            longer = [range(each.start, each.end) for each in reading.names if " " in each.text]
            tokens = [
                token
                for token in tokenize(reading.text)
                if not any(token.start in each for each in longer)
            ]
            if _are_words_of(name, {token.word for token in tokens}):
                return True
        return False

    def has_capital_of(self, name: str) -> bool:
        """Whether a cited sentence has a capitalized word of the name, also the first."""
        of_name, *of_sentences = (
            {each.word for each in tokenize(text) if each.is_capitalized}
            for text in (name, *self._passages.sentences)
        )
        shared = of_name.intersection(set().union(*of_sentences))
        return any(len(each) >= STEM_LENGTH - 1 and not is_function_word(each) for each in shared)

    def is_publisher(self, name: str) -> bool:
        """Whether a sentence has the last word of a name that is written like the site of its page."""
        last = name.rpartition(" ")[2]
        return any(
            is_name_of_site(name, [reading.cited.page.site]) and is_mentioned(last, [reading.text])
            for reading in self._passages.readings
        )

    def has_words(self, name: str, names: Sequence[str] = ()) -> bool:
        """Whether each telling word of the name is in some form on the pages, or in one of `names`."""
        words = {token.word for each in names for token in tokenize(each)}
        known = {word[:STEM_LENGTH] for word in self._passages.page_words | words}
        # A page does not call each bid or appeal so.
        silent = word_set("no_names") | word_set("label_types")
        return all(
            word[:STEM_LENGTH] in known or is_function_word(word) or word in silent
            for word in name_words(name)
        )

    def is_name(self, text: str) -> bool:
        tokens = tokenize(text)
        if not 0 < len(tokens) <= MAX_NAME_WORDS or "," in text:
            return False
        particles = word_set("particles") | word_set("articles")
        return tokens[-1].is_capitalized and all(
            token.is_capitalized or token.word in particles for token in tokens
        )

    def identifier(self, name: str, text: str) -> Outcome:
        """The outcome of a version, number of a law and the like."""
        passages = self._passages
        if not contains(text, passages.sentences):
            may_be_there = passages.may_have(text.replace("–", "-")) or contains(
                text, passages.around
            )
            return UNREAD if may_be_there else left_out(f"{text!r} is not in the cited sentences")
        is_score = bool(SCORE.fullmatch(text))
        pattern = SCORE if is_score else IDENTIFIER
        found = {m[0].rstrip(".") for each in passages.sentences for m in pattern.finditer(each)}
        is_clear = found <= {text} and (
            name in ("score", "result")
            if is_score
            else any(word.startswith(role_stems(name)) for word in passages.words)
            and all(reading.is_plain for reading in passages.readings)
        )
        return MATCHED if is_clear else UNREAD

    def name(self, name: str, text: str) -> Outcome:
        passages, words = self._passages, set(name_parts(name))
        if (country := self._country(text)) is not None:
            is_of_country = words <= word_set("country_names") or country.level is not Level.MATCHED
            return country if is_of_country else UNREAD
        # What the graph calls the node of that name too.
        known = (each for names in passages.known if text in names for each in names)
        names = [*dict.fromkeys([text, *known])]
        named = passages.is_named(names)
        if named is None:
            return UNREAD
        if not named:
            return self._missing_name(text, names)
        person = without_office(text)
        if " " not in person and (full := passages.full_names(person)):
            completed = full.pop()
            # A person's name has two to four words in small letters.
            is_person = 2 <= len(completed.split()) <= 4 and not any(
                each.isupper() for each in completed.split()
            )
            if full or not is_person or has_office(completed):
                return UNREAD
            return Outcome(Level.COMPLETED, "the full name is on the page", completed)
        forms = [*names, *(short for each in names for short in passages.short_forms(each))]
        if words & word_set("speaker_names"):
            return MATCHED if self._speaks(forms) else UNREAD
        is_clear = (bool(words & word_set("place_names")) and self._is_only_place(forms)) or any(
            # The word for the role stands directly before the name, as in "Judge Petra Quill".
            contains(f"{name} {form}", passages.sentences)
            for form in forms
        )
        return MATCHED if is_clear else UNREAD

    def _missing_name(self, text: str, names: Sequence[str]) -> Outcome:
        passages = self._passages
        may_be_there = (
            not passages.can_miss_names
            or is_name_of_site(text, [page.site for page in passages.pages])
            or self.has_unnamed_holder
            or self.may_be_meant(names)
            # A part of the name can be a country that the sentences have.
            or any(
                names_country(text, "en") & names_country(each.text, each.language)
                for each in passages.readings
            )
            # It may be no proper name, but a word with a capital.
            or (
                " " not in text
                and any(
                    each.language == "de"
                    or any(word[:STEM_LENGTH] == fold(text)[:STEM_LENGTH] for word in each.words)
                    for each in passages.readings
                )
            )
        )
        return UNREAD if may_be_there else left_out(f"no cited sentence names {text!r}")

    def _country(self, text: str) -> Outcome | None:
        """The outcome of a country; None if `text` is none."""
        readings = self._passages.readings
        if not any(is_place_name(text, each.language) for each in readings):
            return None
        codes = {code for each in readings for code in names_country(text, each.language)}
        if not codes:
            return None  # It is a city.
        found = {code for each in readings for code in names_country(each.text, each.language)}
        if not codes & found:
            return left_out(f"no cited sentence names {text!r}")
        if not found <= codes:
            return UNREAD
        for reading in readings:
            for each in reading.names:
                is_own = any(is_mentioned(one, [each.text]) for one in self._passages.own)
                if is_own and codes & names_country(each.text, reading.language):
                    return MATCHED
        own = [*self._passages.own, self._passages.label, text]
        others = [each for each in self._passages.other_names(own) if not names_country(each, "en")]
        return UNREAD if others or not all(each.is_plain for each in readings) else MATCHED

    def _is_only_place(self, forms: Sequence[str]) -> bool:
        """Whether no other name than `forms` stands after "in" and the like, and what names them is plain."""
        places = {
            fold(name.text)
            for reading in self._passages.readings
            for name in reading.names
            if reading.says_before("in_place", name.start)
        }
        return (
            bool(places)
            and places <= {fold(each) for each in forms}
            and all(
                reading.is_plain
                for reading in self._passages.readings
                if any(is_mentioned(form, [reading.text]) for form in forms)
            )
        )

    def _speaks(self, forms: Sequence[str]) -> bool:
        """Whether one of the names stands beside a verb of saying, and no other name does."""
        speakers = [
            name.text
            for reading in self._passages.readings
            for name in reading.names
            if not name.start or self._passages.is_sure(name, reading.language)
            if _is_beside_verb(name, tokenize(reading.text))
        ]
        return bool(speakers) and all(
            any(is_mentioned(form, [each]) for form in forms) for each in speakers
        )


def _is_beside_verb(name: Name, tokens: Sequence[Token]) -> bool:
    """Whether a verb of saying stands beside the name, which is not that of whom something was told."""
    before = {token.word for token in [each for each in tokens if each.end <= name.start][-3:]}
    after = {token.word for token in [each for each in tokens if each.start >= name.end][:3]}
    verbs = word_set("saying")
    return bool(verbs & after or (verbs & before and not {"told", "tells"} & before))


def _is_common(word: str) -> bool:
    joints = word_set("particles") | word_set("articles") | word_set("legal_forms")
    return len(word) > 1 and not is_function_word(word) and word not in joints


def _are_words_of(name: str, words: Set[str]) -> bool:
    own = [each for each in name_words(name) if not is_function_word(each)]
    return len(own) > 1 and all(
        any(word[:STEM_LENGTH] == each[:STEM_LENGTH] for word in words) for each in own
    )


def is_name_of_site(name: str, sites: Sequence[str]) -> bool:
    """Whether a name is written like one of the sites, as "Harbour Ledger" is like harbourledger.example."""
    plain = re.sub(r"[^a-z0-9]", "", fold(name)).removeprefix("the")
    labels = {re.sub(r"[^a-z0-9]", "", label) for site in sites for label in site.split(".")[:-1]}
    return bool(plain) and any(plain == label.removeprefix("the") for label in labels)
