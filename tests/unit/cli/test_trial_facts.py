"""Facts written by a trial's agent, compared with the World Factbook."""

from typing import Any

import pytest

from cli.trial.facts import FactCheck, Judgement, WrittenProperty
from cli.trial.quantities import quantities, years
from sandbox.corpus.factbook import Country, StatedFact, countries

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


@pytest.mark.parametrize(
    ("subject", "name", "value", "judgement"),
    [
        ("Ghana", "real_gdp_growth_rate", 5.7, RIGHT),
        ("Republic of Ghana", "realGdpGrowth", "5.7 %", RIGHT),
        ("Ghana", "gdp_growth_2023", 3.1, RIGHT),
        ("Ghana", "gdp_growth_2023", 5.7, WRONG),  # the value of 2024
        ("Ghana", "gdp_growth_1990", 9.9, NOT_CHECKABLE),
        ("Ghana", "electricity_imports", "48.449 million kWh (2023 est.)", RIGHT),
        ("Ghana", "electricity_imports", "48.4 GWh", RIGHT),
        ("Ghana", "electricity_imports_million_kwh", 48.4, RIGHT),
        ("Ghana", "electricity_imports_gwh", 48, RIGHT),
        ("Ghana", "electricity_imports", 48.449, RIGHT),  # the scale is left out
        ("Ghana", "electricity_imports", 48_449, NOT_CHECKABLE),  # thousands of kWh, perhaps
        ("Ghana", "electricity_imports", "48 billion kWh", WRONG),
        ("Ghana", "electricity_imports_gwh", 84, WRONG),
        ("Ghana", "electricity_imports", "12%", NOT_CHECKABLE),  # of what?
        ("Ghana", "gdp", "$83 billion", RIGHT),
        ("Ghana", "gdp", "about 243 billion USD", RIGHT),
        ("Ghana", "gdp_usd", 82_825_000_000, RIGHT),
        ("Ghana", "gdp_usd", 8_282_500_000, WRONG),
        ("Ghana", "area_sq_km", 238_533, RIGHT),
        ("Ghana", "area", "92,098 square miles", RIGHT),
        ("Ghana", "area", "92,098 furlongs", NOT_CHECKABLE),
        ("Ghana", "population", "35.3 million", RIGHT),
        ("Ghana", "population", 30_000_000, WRONG),
        ("Ghana", "petroleum_production", "176,000 barrels per day", RIGHT),
        ("Ghana", "petroleum_production", "176,000 barrels", NOT_CHECKABLE),
        ("Ghana", "capital", "Accra", RIGHT),
        ("Ghana", "capital", "The capital is Accra.", RIGHT),
        ("Ghana", "capital", "Kumasi", WRONG),
        ("Ghana", "industries", ["Mining", "petroleum"], RIGHT),
        ("Ghana", "industries", ["Mining", "chocolate"], NOT_CHECKABLE),
        ("Ghana", "outlook", "good", NOT_CHECKABLE),
        ("Ghana", "summary", "Accra", NOT_CHECKABLE),
        ("Ghana", "year", 2024, NOT_CHECKABLE),
        ("Ghana", "capital", True, NOT_CHECKABLE),
        ("Ghana", "capital", None, NOT_CHECKABLE),
        ("Ghana", "capital", {"name": "Kumasi"}, NOT_CHECKABLE),
        ("Atlantis", "capital", "Atlantis", NOT_CHECKABLE),
        ("Guinea-Bissau", "capital", "Bissau", RIGHT),
        ("Guinea", "capital", "Bissau", WRONG),
        ("Trade of Ghana and Togo", "capital", "Lome", NOT_CHECKABLE),
        ("Ghana petroleum production", "value", "176,000 bbl/day", RIGHT),
        ("Ghana petroleum production", "value", "76,000 bbl/day", WRONG),
        ("Ghana fisheries", "capital", "Kumasi", NOT_CHECKABLE),
    ],
)
def test_properties(subject: str, name: str, value: Any, judgement: Judgement) -> None:
    result = CHECK.check(WrittenProperty(subject, name, value))
    assert result.judgement is judgement, result
    assert (result.stated is None) == (judgement is NOT_CHECKABLE)


def test_a_wrong_fact_is_shown_with_the_stated_value() -> None:
    result = CHECK.check(WrittenProperty("Ghana", "gdp_usd", 8_282_500_000))
    assert result.stated == "Ghana — GDP (official exchange rate): $82.825 billion (2024 est.)"


def test_a_unit_or_a_year_may_be_a_separate_property() -> None:
    def judge(**properties: Any) -> Judgement:
        return CHECK.check(
            WrittenProperty("Ghana", "gdp_growth", properties["value"], siblings=properties)
        ).judgement

    assert judge(value=5.7, year=2024) is RIGHT
    assert judge(value=5.7, year="2023") is WRONG
    assert judge(value=5.7) is RIGHT
    imports = {"unit": "million kWh"}
    fact = WrittenProperty("Ghana", "electricity_imports", 48.4, siblings=imports)
    assert CHECK.check(fact).judgement is RIGHT
    thousands = WrittenProperty(
        "Ghana", "electricity_imports", 48.4, siblings={"unit": "thousand kWh"}
    )
    assert CHECK.check(thousands).judgement is WRONG


@pytest.mark.parametrize(
    ("source", "type_name", "target", "value", "judgement"),
    [
        ("Togo", "exports_partners", "Angola", "13%", RIGHT),
        ("Togo", "export_partner", "Côte d'Ivoire", 3, RIGHT),
        ("Togo", "exports_partners", "Angola", "40%", WRONG),  # the value of another partner
        ("Togo", "exports_partners", "Norway", "13%", NOT_CHECKABLE),
        ("Angola", "exports_partners", "Togo", "13%", RIGHT),
        ("Angola", "supplies", "Togo", "13%", NOT_CHECKABLE),
        ("gold", "exports_partners", "silver", "13%", NOT_CHECKABLE),
    ],
)
def test_properties_of_edges(
    source: str, type_name: str, target: str, value: Any, judgement: Judgement
) -> None:
    fact = WrittenProperty(source, "figure", value, about=type_name, other=target)
    assert CHECK.check(fact).judgement is judgement


def test_values_of_any_length_and_kind_are_checked_quickly() -> None:
    for value in ("9" * 100_000, "1,234," * 50_000, "((((" * 50_000, "−1e999", "NaN", 10**400):
        assert CHECK.check(WrittenProperty("Ghana", "gdp", value)).judgement is not RIGHT


def test_quantities_are_read_with_scale_unit_and_sign() -> None:
    (imports,) = quantities("-34.1% (2024 est.)")
    assert (imports.value, imports.unit) == (-34.1, "%")
    (gdp,) = quantities("$5.2B in 2023")
    assert (gdp.value, gdp.unit) == (5.2e9, "USD")
    assert [quantity.value for quantity in quantities("UAE 40%, India 13% (2023)")] == [40, 13]
    assert quantities("CO2 and G7") == []
    assert years("2,023 in FY 2022 (2021 est.)") == [2022, 2021]


@pytest.mark.parametrize("number", [15, pytest.param(60, marks=pytest.mark.slow)])
def test_the_factbook_agrees_with_itself(number: int) -> None:
    """Check each value under its own label; none may be judged wrong."""
    all_countries = list(countries())
    check = FactCheck(all_countries)
    judgements = [
        check.check(WrittenProperty(country.names[0], fact.path, fact.text)).judgement
        for country in all_countries[:number]
        for fact in country.facts
    ]
    assert judgements.count(WRONG) == 0
    assert judgements.count(RIGHT) > 0.7 * len(judgements)
