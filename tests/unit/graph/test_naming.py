"""Names that are one name, and names that are not."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared.graph.entity_resolution.normalization import discriminators, normalize, normalize_key

ALIKE = [
    ("NVIDIA Corporation", "nvidia"),
    ("Nvidia Corp.", "nvidia"),
    ("  NVIDIA,  Inc. ", "nvidia"),
    ("NVIDIA (NVDA)", "nvidia"),
    ("NVIDIA Corp. (NASDAQ: NVDA)", "nvidia"),
    ("NVIDIA Corporation, NASDAQ:NVDA", "nvidia"),
    ("NASDAQ: NVDA", "nvda"),
    ("Ｎｖｉｄｉａ", "nvidia"),
    ("Siemens Energy AG", "siemens energy"),
    ("Enel S.p.A.", "enel"),
    ("Danone S.A.", "danone"),
    ("L’Oréal SA", "loreal"),
    ("Nestlé", "nestle"),
    ("Ørsted A/S", "orsted"),
    ("Mærsk", "maersk"),
    ("Toyota Motor Co., Ltd.", "toyota motor"),
    ("Merck KGaA", "merck"),
    ("Robert Bosch GmbH & Co. KG", "robert bosch"),
    ("The Coca-Cola Company", "coca cola"),
    ("Johnson & Johnson", "johnson and johnson"),
    ("AT&T Inc.", "at and t"),
    ("U.S. Steel", "us steel"),
    ("Deutsche Bank AG", "deutsche bank"),
    ("Volkswagen Group", "volkswagen group"),
    ("International Monetary Fund (IMF)", "international monetary fund"),
    ("Straße", "strasse"),
    ("GPT‑4", "gpt 4"),
    ("C#", "c#"),
    ("C++", "c++"),
    ("Компания Новый", "компания новый"),
    ("Тий", "тий"),
    ("株式会社", "株式会社"),
    ("The Who", "the who"),
    ("Co.", "co"),
    ("Inc. Ltd.", "inc"),
    ("The", "the"),
    ("!!!", "!!!"),
    ("Georgia (USA)", "georgia usa"),
    ("Georgia (US)", "georgia us"),
    ("3.5", "3 5"),
]


@pytest.mark.parametrize(("name", "expected"), ALIKE)
def test_what_a_name_is_known_by(name: str, expected: str) -> None:
    assert normalize(name, "Company").key == expected


@pytest.mark.parametrize(
    ("name", "also"),
    [
        ("NVIDIA (NVDA)", ("nvda",)),
        ("Nvidia Corp. [NASDAQ: NVDA]", ("nvda",)),
        ("International Monetary Fund (IMF)", ("imf",)),
        ("BASF SE (ETR: BAS)", ("bas",)),
        ("NASDAQ: NVDA", ()),
        ("Cambridge (UK)", ()),
        ("Georgia (USA)", ()),
        ("Ghana", ()),
    ],
)
def test_tickers_and_initials_are_names_of_their_own(name: str, also: tuple[str, ...]) -> None:
    assert normalize(name, "Company").also == also


@pytest.mark.parametrize("type_name", ["Product", "ConsumerProduct", "City"])
def test_what_nobody_incorporates_has_no_legal_form(type_name: str) -> None:
    assert normalize_key("iPhone SE", type_name) == "iphone se"
    assert normalize_key("SAP SE", "SoftwareMaker") == "sap"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("q1 2025", "q2 2025"),
        ("model 3", "model y"),
        ("regulation 2019 1", "regulation 2019 2"),
        ("series a", "series b"),
        ("maker 1a", "maker 1b"),
        ("phase ii", "phase iii"),
        ("report of january", "report of june"),
    ],
)
def test_numbers_and_dates_tell_apart(one: str, other: str) -> None:
    assert discriminators(one) != discriminators(other)


def test_the_order_of_numbers_does_not() -> None:
    assert discriminators("2025 q1") == discriminators("q1 2025")
    assert discriminators("gpt4") == discriminators("gpt 4")


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1)
COMPANIES = st.lists(
    st.sampled_from(
        [
            "The",
            "Acme",
            "Co",
            "Co.",
            "& Co.",
            "KG",
            "S.p.A.",
            "(ACME)",
            "NYSE: ACM",
            "Inc",
            "é",
            "-",
            "a.b.",
            "İ",
            "ﬁ",
        ]
    ),
    min_size=1,
).map(" ".join)


@given(NAMES | COMPANIES, st.sampled_from(["Company", "Product"]))
@example("The The Acme", "Company")
@example("S. p. A. A", "Company")
def test_the_key_of_a_key_is_itself(name: str, type_name: str) -> None:
    found = normalize(name, type_name)
    for each in (found.key, *found.also):
        assert normalize_key(each, type_name) == each
        assert normalize(each, type_name).key == each


@given(NAMES | COMPANIES)
def test_a_name_is_known_by_something(name: str) -> None:
    if name.strip():
        assert normalize(name, "Company").key.strip()


@given(NAMES | COMPANIES)
def test_spellings_of_unicode_and_blanks_are_one(name: str) -> None:
    spelled = f" {unicodedata.normalize('NFD', name)}\n"
    assert normalize_key(spelled) == normalize_key(unicodedata.normalize("NFC", name))
