"""Facts written by a trial's agent, compared with the World Factbook."""

from typing import Any

import pytest

from cli.trial.facts import FactCheck, Judgement, WrittenProperty, quantities, years
from sandbox.corpus.factbook import Country, StatedFact, countries
from tests.support.case_files import read_cases

CASES = read_cases(__file__)

GHANA = Country(
    ("Ghana", "Republic of Ghana", "Gold Coast"),
    (
        StatedFact("Real GDP (purchasing power parity) 2024", "$243.124 billion (2024 est.)"),
        StatedFact("Real GDP growth rate 2024", "5.7% (2024 est.)"),
        StatedFact("Real GDP growth rate 2023", "3.1% (2023 est.)"),
        StatedFact("GDP (official exchange rate)", "$82.825 billion (2024 est.)"),
        StatedFact("GDP - composition, by end use, imports of goods", "-34.1% (2024 est.)"),
        StatedFact("Electricity, imports", "48.449 million kWh (2023 est.)"),
        StatedFact("Area, total", "238,533 sq km"),
        StatedFact("Population, total", "35,302,943 (2024 est.)"),
        StatedFact("Capital, name", "Accra"),
        StatedFact("Industries", "mining, lumbering, light manufacturing, petroleum"),
        StatedFact("Petroleum, total petroleum production", "176,000 bbl/day (2023 est.)"),
    ),
)
TOGO = Country(
    ("Togo",),
    (StatedFact("Exports - partners", "UAE 40%, India 13%, Angola 13%, Cote d'Ivoire 3% (2023)"),),
)
GUINEA = Country(("Guinea",), (StatedFact("Capital, name", "Conakry"),))
GUINEA_BISSAU = Country(("Guinea-Bissau",), (StatedFact("Capital, name", "Bissau"),))
CHECK = FactCheck((GHANA, TOGO, GUINEA, GUINEA_BISSAU))

RIGHT, WRONG, NOT_CHECKABLE = Judgement.RIGHT, Judgement.WRONG, Judgement.NOT_CHECKABLE


@pytest.mark.parametrize(("subject", "name", "value", "judgement"), CASES["properties"])
def test_properties(subject: str, name: str, value: Any, judgement: str) -> None:
    found, stated = CHECK.check(WrittenProperty(subject, name, value))
    assert found == judgement, stated
    assert (stated is None) == (judgement == NOT_CHECKABLE)


def test_a_wrong_fact_is_shown_with_the_stated_value() -> None:
    _, stated = CHECK.check(WrittenProperty("Ghana", "gdp_usd", 8_282_500_000))
    assert stated == "Ghana — GDP (official exchange rate): $82.825 billion (2024 est.)"


def test_a_unit_or_a_year_may_be_a_separate_property() -> None:
    def judge(**properties: Any) -> Judgement:
        return CHECK.check(
            WrittenProperty("Ghana", "gdp_growth", properties["value"], siblings=properties)
        )[0]

    assert judge(value=5.7, year=2024) is RIGHT
    assert judge(value=5.7, year="2023") is WRONG
    assert judge(value=5.7) is RIGHT
    imports = {"unit": "million kWh"}
    fact = WrittenProperty("Ghana", "electricity_imports", 48.4, siblings=imports)
    assert CHECK.check(fact)[0] is RIGHT
    thousands = WrittenProperty(
        "Ghana", "electricity_imports", 48.4, siblings={"unit": "thousand kWh"}
    )
    assert CHECK.check(thousands)[0] is WRONG


@pytest.mark.parametrize(
    ("source", "type_name", "target", "value", "judgement"), CASES["properties_of_edges"]
)
def test_properties_of_edges(
    source: str, type_name: str, target: str, value: Any, judgement: str
) -> None:
    fact = WrittenProperty(source, "figure", value, about=type_name, other=target)
    assert CHECK.check(fact)[0] == judgement


def test_values_of_any_length_and_kind_are_checked_quickly() -> None:
    for value in ("9" * 100_000, "1,234," * 50_000, "((((" * 50_000, "−1e999", "NaN", 10**400):
        assert CHECK.check(WrittenProperty("Ghana", "gdp", value))[0] is not RIGHT


def test_quantities_are_read_with_scale_unit_and_sign() -> None:
    (imports,) = quantities("-34.1% (2024 est.)")
    assert (float(imports.values[0]), imports.unit) == (-34.1, "percent")
    (gdp,) = quantities("$5.2B in 2023")
    assert (float(gdp.values[0]), gdp.unit) == (5.2e9, "currency")
    assert [quantity.values[0] for quantity in quantities("UAE 40%, India 13% (2023)")] == [40, 13]
    assert quantities("CO2 and G7") == []
    assert years("2,023 in FY 2022 (2021 est.)") == [2022, 2021]


@pytest.mark.parametrize("number", [15, pytest.param(60, marks=pytest.mark.slow)])
def test_the_factbook_agrees_with_itself(number: int) -> None:
    """Check each value under its own label; none may be judged wrong."""
    all_countries = list(countries())
    check = FactCheck(all_countries)
    judgements = [
        check.check(WrittenProperty(country.names[0], fact.path, fact.text))[0]
        for country in all_countries[:number]
        for fact in country.facts
    ]
    assert judgements.count(WRONG) == 0
    assert judgements.count(RIGHT) > 0.7 * len(judgements)
