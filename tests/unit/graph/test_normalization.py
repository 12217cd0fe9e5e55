"""Names that denote the same element, and names that do not."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared.graph.entity_resolution.normalization import discriminators, normalize, normalize_key

NORMALIZED = [
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


@pytest.mark.parametrize(("name", "expected"), NORMALIZED)
def test_normalized_keys(name: str, expected: str) -> None:
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
def test_tickers_and_initials_are_aliases(name: str, also: tuple[str, ...]) -> None:
    assert normalize(name, "Company").also == also


@pytest.mark.parametrize("type_name", ["Product", "ConsumerProduct", "City"])
def test_legal_forms_are_removed_only_from_names_of_organizations(type_name: str) -> None:
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
def test_numbers_and_dates_are_discriminators(one: str, other: str) -> None:
    assert discriminators(one) != discriminators(other)


def test_the_order_of_discriminators_does_not_matter() -> None:
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
def test_normalization_is_idempotent(name: str, type_name: str) -> None:
    normalized = normalize(name, type_name)
    for key in (normalized.key, *normalized.also):
        assert normalize_key(key, type_name) == key
        assert normalize(key, type_name).key == key


@given(NAMES | COMPANIES)
def test_a_key_is_never_blank(name: str) -> None:
    if name.strip():
        assert normalize(name, "Company").key.strip()


@given(NAMES | COMPANIES)
def test_unicode_forms_and_white_space_have_the_same_key(name: str) -> None:
    spelled = f" {unicodedata.normalize('NFD', name)}\n"
    assert normalize_key(spelled) == normalize_key(unicodedata.normalize("NFC", name))
