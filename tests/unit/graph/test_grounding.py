"""The rules that decide whether a claim follows from its quotes: labelled cases in five languages, and single rules."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from shared.graph.grounding import check, cited, quantities
from shared.graph.grounding.check import ClaimCheck, Quoted, check_quotes, states_day
from shared.graph.grounding.cited import Claimed, Passage, years_of_page
from shared.graph.grounding.dates import find_dates
from shared.graph.grounding.findings import Finding, Verdict, worst
from shared.graph.grounding.names import (
    find_mentions,
    find_names,
    is_named_literally,
    translate_place,
)
from shared.graph.grounding.quantities import find_quantities, read_number
from shared.graph.grounding.units import convert, hint_of
from shared.graph.grounding.words import find_decimal_sign, find_language
from tests.support.case_files import read_cases
from tests.support.evidence_cases import EvidenceCase, evidence_cases

CASES = read_cases(__file__)

REFUSABLE = {
    "number",
    "scale",
    "unit",
    "currency",
    "percentage",
    "year",
    "date",
    "subject",
    "edge_end",
}
"""Faults that rules read. A name may be a common noun; a negation, and what a status means, are left to a model."""
ROLE = "other role"
"""A value that the quote has, for something else."""
MAX_FALSE_REFUSALS = 0.03
MISLEADING = [
    "count as year",
    "US date with hyphens",
    "plan",
    "name as a word",
    "state code that is a function word",
    "year of another company",
    "of a rival",
    "other role",
]
"""False claims of the adversarial cases that the rules support, of 295."""


@dataclass(frozen=True)
class Grounding:
    """The findings about an element, and about each of its properties."""

    element: Finding
    properties: Mapping[str, Finding]

    @property
    def worst(self) -> Verdict:
        return worst([self.element, *self.properties.values()]).verdict


def check_element(claimed: Claimed, passages: Sequence[Passage]) -> Grounding:
    """What the rules say of `claimed`, which cites `passages`."""
    check = ClaimCheck(claimed, passages)
    return Grounding(
        check.ends(), {name: check.value(name, value) for name, value in claimed.properties.items()}
    )


def ground(case: EvidenceCase) -> Grounding:
    language = find_language(case.page)
    sign = find_decimal_sign(case.page, language)
    ends = [(case.subject, *case.aliases)]
    if case.kind == "edge":
        ends.append((case.target, *case.target_aliases))
    return check_element(
        Claimed(ends, case.properties, case.kind == "edge"),
        [Passage(quote, language, sign, case.title, case.heading) for quote in case.quotes],
    )


@pytest.fixture(scope="module")
def judged() -> list[tuple[EvidenceCase, Grounding]]:
    return [(case, ground(case)) for case in evidence_cases("first")]


def test_false_numbers_dates_and_subjects_are_refused(
    judged: list[tuple[EvidenceCase, Grounding]],
) -> None:
    accepted = [
        case.id
        for case, grounding in judged
        if case.fault in REFUSABLE
        and ROLE not in case.note
        and grounding.worst is not Verdict.REFUSED
    ]
    # The year of the report is in the quote as well, and is claimed for something else.
    assert accepted == ["en-text-6"]


def test_a_false_claim_is_never_supported(judged: list[tuple[EvidenceCase, Grounding]]) -> None:
    supported = [
        case.id for case, grounding in judged if case.fault and grounding.worst is Verdict.SUPPORTED
    ]
    # "heat pumps" has the word "pumps".
    assert supported == ["en-plural-6"]


def test_true_claims_are_seldom_refused(judged: list[tuple[EvidenceCase, Grounding]]) -> None:
    verdicts = Counter(grounding.worst for case, grounding in judged if case.fault is None)
    assert verdicts[Verdict.REFUSED] <= MAX_FALSE_REFUSALS * verdicts.total()
    assert verdicts[Verdict.SUPPORTED] >= 0.4 * verdicts.total()


@pytest.mark.parametrize("name", ["second", "held_out"])
def test_cases_by_authors_who_had_not_read_the_rules(name: str) -> None:
    verdicts = [(case, ground(case).worst) for case in evidence_cases(name)]
    true = [verdict for case, verdict in verdicts if case.fault is None]
    assert true.count(Verdict.REFUSED) <= MAX_FALSE_REFUSALS * len(true)
    assert [case.id for case, each in verdicts if case.fault and each is Verdict.SUPPORTED] == []
    # What has a note needs sense: a value of something else, a direction, a notation.
    readable = [each for case, each in verdicts if case.fault in REFUSABLE and not case.note]
    assert readable.count(Verdict.REFUSED) >= 0.98 * len(readable)


def test_a_reason_names_the_value_and_what_the_quote_has() -> None:
    passage = Passage("More rain is expected; 1,200 people live in Atlantis.", "en", ".")
    claimed = Claimed([["Atlantis"]], {"population": 999_000_000})

    reason = check_element(claimed, [passage]).properties["population"].reason

    assert reason == "999000000 is not in the quote; it has 1,200"


@pytest.mark.parametrize(
    ("valid_from", "valid_to", "refused"),
    CASES["a_time_of_validity_is_in_a_year_that_the_page_says_or_was_written_in"],
)
def test_a_time_of_validity_is_in_a_year_that_the_page_says_or_was_written_in(
    valid_from: tuple[int, int] | None, valid_to: tuple[int, int] | None, refused: str
) -> None:
    """Its last moment counts: 1 January is the end of the year before."""
    years = years_of_page(datetime(2024, 5, 1, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC))
    passage = Passage("The pier is open since 2019.", "en", ".", "Atlantis", "", years)
    first, last = (
        None if each is None else datetime(*each, 1, tzinfo=UTC) for each in (valid_from, valid_to)
    )
    [finding] = check_quotes([["Atlantis"]], [Quoted(passage, 1, {}, first, last)], is_edge=False)
    assert finding.period.reason.startswith(refused)
    assert (finding.period.verdict is Verdict.REFUSED) == bool(refused)


def test_a_literal_name_is_a_mention(monkeypatch: pytest.MonkeyPatch) -> None:
    """The short way gives the verdict of the long one."""
    cases = [*evidence_cases("first"), *evidence_cases("adversarial")]
    for case, other in zip(cases, [*cases[1:], cases[0]], strict=True):
        names = [case.subject, *case.aliases, *case.subject.split(), other.subject, other.target]
        for quote in (*case.quotes, *other.quotes):
            for name in (*names, *case.quotes[0].split()):
                assert find_mentions(name, quote) or not is_named_literally(name, quote)
    quick = [ground(case) for case in cases]
    for module in (cited, check):
        monkeypatch.setattr(module, "is_named_literally", lambda name, text: False)
    assert [ground(case) for case in cases] == quick


@pytest.mark.parametrize(("name", "text", "is_named"), CASES["names_are_found_literally"])
def test_names_are_found_literally(name: str, text: str, is_named: bool) -> None:
    assert is_named_literally(name, text) is is_named


@pytest.mark.parametrize(
    ("quote", "valid_from", "valid_to"),
    CASES["years_of_validity_are_read_in_ranges_decades_and_other_digits"],
)
def test_years_of_validity_are_read_in_ranges_decades_and_other_digits(
    quote: str, valid_from: int, valid_to: int | None
) -> None:
    passage = Passage(quote, None, ".", "Atlantis")
    first = datetime(valid_from, 1, 1, tzinfo=UTC)
    last = None if valid_to is None else datetime(valid_to + 1, 1, 1, tzinfo=UTC)
    [finding] = check_quotes([["Atlantis"]], [Quoted(passage, 1, {}, first, last)], is_edge=False)
    assert finding.period.verdict is Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("name", "value", "quote", "reason"), CASES["refusals_name_numbers_with_their_currencies"]
)
def test_refusals_name_numbers_with_their_currencies(
    name: str, value: str | float, quote: str, reason: str
) -> None:
    claimed = Claimed([["Atlantis"]], {name: value})
    found = check_element(claimed, [Passage(quote, "en", ".", "Atlantis")]).properties[name]
    assert (found.verdict, found.reason) == (Verdict.REFUSED, reason)


@pytest.mark.parametrize(
    ("quote", "day", "is_stated"), CASES["a_day_is_stated_by_a_date_that_begins_or_ends_with_it"]
)
def test_a_day_is_stated_by_a_date_that_begins_or_ends_with_it(
    quote: str, day: str, is_stated: bool
) -> None:
    moment = datetime.fromisoformat(day).replace(tzinfo=UTC)
    for passage in (
        Passage(quote, "en", ".", "Atlantis", "", frozenset({2026})),
        Passage("It is so.", "en", ".", "Atlantis", quote),
    ):
        assert states_day([passage], moment) == is_stated


def test_a_day_without_a_year_is_of_the_year_of_its_page() -> None:
    passage = Passage("From 1 December the fee is 5.", "en", ".", "Atlantis")
    moment = datetime(2026, 12, 1, tzinfo=UTC)
    assert not states_day([passage], moment)
    assert states_day([passage], moment, 2026)
    assert not states_day([passage], moment, 2025)


def test_languages_are_recognized() -> None:
    wrong = [
        case.id for case in evidence_cases("first") if find_language(case.page) != case.language
    ]
    assert wrong == []
    assert find_language("2024: 1,5") is None


NUMBER_WORDS = {
    "en": "two eleven twelfth thirteen twenty-one forty fifty-six hundred second third ninth tenth",
    "de": "zwo dreizehn vierzig sechzehn siebzig einundzwanzig zweihundert zweite dritte siebte",
    "fr": "quatorze quatre-vingt soixante septante onze mille deuxième cinquième vingtième",
    "es": "dieciséis veintiuno treinta quinientos mil cuarto quinto séptimo décimo vigésimo",
    "it": "quattordici diciotto ventuno ottanta duemila quarto sesto nono decimo centesimo",
    "pt": "quatorze dezesseis quinhentos milhão quarto sétimo oitavo vigésimo",
    "nl": "eenentwintig dertien tachtig tweehonderd derde vierde",
}


def test_number_words_are_looked_for_wherever_they_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """The short way finds what the long one does."""
    cases = [case for name in ("first", "second", "held_out") for case in evidence_cases(name)]
    texts = {(quote, case.language) for case in cases for quote in case.quotes}
    texts |= {
        (f"Lorvik: {word}.", each) for each, words in NUMBER_WORDS.items() for word in words.split()
    }
    quick = {text: find_quantities(*text, ".") for text in texts}
    monkeypatch.setattr(quantities, "_number_stems", lambda language: re.compile(""))
    assert {text: find_quantities(*text, ".") for text in texts} == quick


@pytest.mark.parametrize(
    ("number", "sign", "values"), CASES["numbers_are_read_as_their_page_writes_them"]
)
def test_numbers_are_read_as_their_page_writes_them(
    number: str, sign: str | None, values: list[str]
) -> None:
    assert list(read_number(number, sign)) == [Decimal(value) for value in values]


def test_a_page_can_write_numbers_unlike_its_language() -> None:
    swiss = (
        "Der Umsatz stieg um 3.5 Prozent. Er lag bei 4.25 Millionen. Die Quote ist 2.1, vorher 2.4."
    )
    assert find_decimal_sign(swiss, "de") == "."
    assert find_decimal_sign("Der Umsatz stieg um 3.5 Prozent.", "de") == ","


@pytest.mark.parametrize(
    ("text", "language", "value", "unit"),
    [
        ("1.2 billion euros", "en", 1_200_000_000, "currency"),
        ("3,1 bis 3,3 Mrd. Euro", "de", 3_100_000_000, "currency"),
        ("une capacité de 22 gigawattheures", "fr", 22, "energy-gigawatt-hour"),
        ("922 mil millones de dólares", "es", 922_000_000_000, "currency"),
        ("5 bilioni di euro", "it", 5_000_000_000_000, "currency"),
        ("10mila euro", "it", 10_000, "currency"),
        ("699 MCHF", "fr", 699_000_000, "currency"),
        ("€107m", "en", 107_000_000, "currency"),
        ("3,122 m high", "en", 3122, "length-meter"),
        ("dal 51 al 38,5%", "it", 51, "percent"),
        ("fell to minus 32 degrees Celsius", "en", -32, "temperature-celsius"),
        ("betreibt vier Werke", "de", 4, ""),
        ("um 3,5 Prozentpunkte", "de", Decimal("3.5"), "percentage points"),
    ],
)
def test_quantities(text: str, language: str, value: Decimal, unit: str) -> None:
    found = find_quantities(text, language, "." if language == "en" else ",")
    assert (found[0].values, found[0].unit) == ((Decimal(value),), unit)


def test_numbers_that_name_something_are_labels() -> None:
    found = find_quantities("certified to ISO 9001 [12], p. 7, with 30 people", "en", ".")
    assert [(int(each.values[0]), each.is_label) for each in found] == [
        (9001, True),
        (12, True),
        (7, True),
        (30, False),
    ]


@pytest.mark.parametrize(("text", "language", "expected"), CASES["dates"])
def test_dates(text: str, language: str, expected: list[str]) -> None:
    assert list(map(str, find_dates(text, language))) == expected


@pytest.mark.parametrize(
    ("name", "unit", "currency", "scale"), CASES["names_of_properties_tell_units"]
)
def test_names_of_properties_tell_units(name: str, unit: str, currency: str, scale: int) -> None:
    hint = hint_of(name)
    assert (hint.unit, hint.currency, hint.scale) == (unit, currency, scale)


def test_units_are_converted() -> None:
    assert convert(Decimal("2.8"), "power-gigawatt", "power-megawatt") == 2800
    assert convert(Decimal(1), "length-meter", "mass-tonne") is None


def test_names() -> None:
    text = "In 2020 S.p.A. chief Laura von Stein left Norvex Energy for Geneva."
    names = [name.text for name in find_names(text, "en") if name.is_certain]
    assert "Laura von Stein" in names
    assert "Norvex Energy" in names
    assert "Geneva" in names
    assert translate_place("Vienna", "de") == ["Wien"]


def grounding_of(page: str, names: list[str], properties: dict[str, object]) -> Grounding:
    """Of a claim that cites the whole page."""
    language = find_language(page)
    passage = Passage(page, language, find_decimal_sign(page, language))
    return check_element(Claimed([names], properties), [passage])


@pytest.mark.parametrize(
    ("page", "properties"), CASES["what_is_not_there_is_refused_in_any_language"]
)
def test_what_is_not_there_is_refused_in_any_language(
    page: str, properties: dict[str, object]
) -> None:
    names = ["Atlantis", "Атлантида"]
    assert grounding_of(page, names, properties).worst is Verdict.REFUSED


@pytest.mark.parametrize(
    ("page", "name", "properties"), CASES["a_language_that_rules_do_not_know_is_left_to_a_reader"]
)
def test_a_language_that_rules_do_not_know_is_left_to_a_reader(
    page: str, name: str, properties: dict[str, object]
) -> None:
    assert grounding_of(page, [name], properties).worst is Verdict.UNVERIFIED


@pytest.mark.parametrize(
    ("page", "name", "verdict"),
    [
        ("Die Bank von Spanien ist in Madrid.", "Bank of Spain", Verdict.UNVERIFIED),
        ("Die Europäische Zentralbank ist hier.", "European Central Bank", Verdict.UNVERIFIED),
        ("Die Norvex AG hat in Ulm eine Bank.", "Atlantis Bank", Verdict.REFUSED),
        ("Die Norvex AG hat in Ulm eine Bank.", "Atlantis", Verdict.REFUSED),
        ("Norvex, Ulm. 1,200.", "Atlantis", Verdict.REFUSED),
        ("亚特兰蒂斯有1.2万人。", "诺维科技", Verdict.REFUSED),
    ],
)
def test_only_names_of_institutions_may_be_translated(
    page: str, name: str, verdict: Verdict
) -> None:
    assert grounding_of(page, [name], {}).element.verdict is verdict


@pytest.mark.parametrize(
    "text", ["", "\x00", "9" * 5000, "1," * 2000, "%" * 500, "A " * 2000, "٣٤"]
)
def test_hostile_texts_are_read(text: str) -> None:
    passage = Passage(text, "de", ",", text, text)
    values = {"number": 123456789, "extremes": [1e308, float("5e-324")], "text": text}
    findings = check_element(Claimed([["Atlantis"]], values), [passage])

    assert findings.element.verdict is Verdict.REFUSED
    assert findings.properties["number"].verdict is Verdict.REFUSED
    assert findings.properties["extremes"].verdict is Verdict.REFUSED


def test_deep_values_are_left_to_a_reader() -> None:
    value: object = 5
    for _ in range(100):
        value = {"a": value}
    assert grounding_of("It has 5.", ["Atlantis"], {"x": value}).properties["x"].verdict is (
        Verdict.UNVERIFIED
    )


def test_cases_made_to_mislead() -> None:
    """Figures to keep or improve; decision 0040 has them."""
    verdicts = [(case, ground(case).worst) for case in evidence_cases("adversarial")]
    counts = Counter((case.expected, verdict) for case, verdict in verdicts)

    supported = [
        case.note
        for case, verdict in verdicts
        if case.expected != "true" and verdict is Verdict.SUPPORTED
    ]
    assert supported == MISLEADING
    assert counts["refused", Verdict.REFUSED] >= 79
    assert counts["true", Verdict.REFUSED] <= 40
    assert counts["true", Verdict.SUPPORTED] >= 140


@pytest.mark.parametrize(("name", "text"), CASES["an_ampersand_is_the_word_and"])
def test_an_ampersand_is_the_word_and(name: str, text: str) -> None:
    assert find_mentions(name, text)
    assert not find_mentions(name, text.replace("&", "or").replace(" and ", " or "))
