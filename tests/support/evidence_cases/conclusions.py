"""Labelled conclusions over one small graph: true ones, and false ones with the fault that they have.

Written by hand before the rules of `shared.graph.grounding.conclusions`, but for the longer ones and those of another field.
`[ghana]` in a text is a citation of that element.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from shared.graph.grounding.known import CitedElement

Fault = Literal[
    "number",
    "scale",
    "unit",
    "currency",
    "rounding",
    "date",
    "growth",
    "sign",
    "ratio",
    "share",
    "difference",
    "sum",
    "average",
    "rank",
    "count",
    "operands",
    "other node",
    "name",
]
COUNTRY: Final = "Country"
ELEMENTS: Final[Mapping[str, CitedElement]] = {
    "ghana": CitedElement(
        COUNTRY,
        ("Ghana", "Republic of Ghana"),
        (
            ("population", 33_800_000),
            ("population", 32_400_000),
            ("area_km2", 238_533),
            ("gdp_usd", 76_370_000_000),
            ("inflation_percent", 23.2),
            ("capital", "Accra"),
            ("summary", "A country in West Africa that exports gold and cocoa."),
        ),
    ),
    "togo": CitedElement(
        COUNTRY,
        ("Togo",),
        (
            ("population", 8_650_000),
            ("area_km2", 56_785),
            ("gdp_usd", 9_170_000_000),
            ("inflation_percent", 5.3),
            ("capital", "Lomé"),
        ),
    ),
    "benin": CitedElement(
        COUNTRY,
        ("Benin",),
        (
            ("population", 13_700_000),
            ("area_km2", 112_622),
            ("gdp_usd", 19_670_000_000),
            ("inflation_percent", 2.7),
        ),
    ),
    "burkina": CitedElement(
        COUNTRY,
        ("Burkina Faso",),
        (
            ("population", 23_250_000),
            ("area_km2", 274_200),
            ("gdp_usd", 20_320_000_000),
            ("inflation_percent", 0.7),
        ),
    ),
    "ivory": CitedElement(
        COUNTRY,
        ("Côte d'Ivoire", "Ivory Coast"),
        (
            ("population", 28_870_000),
            ("area_km2", 322_463),
            ("gdp_usd", 78_880_000_000),
            ("inflation_percent", 4.4),
        ),
    ),
    "orran": CitedElement(
        "Maker",
        ("Orran AG", "Orran"),
        (
            ("employees", 4_200),
            ("revenue_2022_million_eur", 812),
            ("revenue_2023_million_eur", 934.5),
            ("founded", 1987),
            ("headquarters", "Ulm, Germany"),
            ("ceo", "Dr. Lena Hartmann"),
            ("market_share", 0.1234),
            ("plants", 5),
            ("capacity", "120 MW"),
            ("product", "X200 inverter"),
        ),
        ("2024-03-31",),
    ),
    "halden": CitedElement(
        "Maker",
        ("Halden SA", "Halden"),
        (
            ("employees", 1_150),
            ("revenue_2022_million_eur", 310),
            ("revenue_2023_million_eur", 279),
            ("founded", 2003),
            ("headquarters", "Lyon"),
            ("market_share", 0.05),
            ("plants", 2),
        ),
    ),
    "kestrel": CitedElement(
        "Miner",
        ("Kestrel Mining Ltd",),
        (
            ("output_2022_tonnes", 41_200),
            ("output_2023_tonnes", 48_700),
            ("reserves_tonnes", 1_900_000),
            ("listed", "2011-05-17"),
            ("share_price_usd", 3.85),
            ("status", "plans to open a second mine in Chile by 2027"),
        ),
    ),
    "lithium": CitedElement(
        "Metal",
        ("Lithium",),
        (
            ("price_usd_per_tonne", 14_250),
            ("price_usd_per_tonne", 71_000),
            (
                "figures",
                [
                    {"label": "Demand (2023)", "value": "917,000 t"},
                    {"label": "Demand (2022)", "value": "745,000 t"},
                ],
            ),
        ),
    ),
    "supplies": CitedElement(
        "supplies",
        ("Orran AG", "Orran", "Halden SA", "Halden"),
        (("share_percent", 38), ("since", "2019")),
        is_edge=True,
    ),
    "nvidia": CitedElement(
        "Company",
        ("NVIDIA Corporation", "NVIDIA"),
        (
            ("summary", "NVIDIA designs GPUs for data centers and AI training."),
            ("revenue_fy2024_usd", 60_922_000_000),
            ("revenue_fy2023_usd", 26_974_000_000),
            ("data_center_revenue_q4_fy2024_usd", "$18.4 billion"),
            ("gross_margin_percent", 75.0),
            ("employees", 29_600),
            ("headquarters", "Santa Clara, California"),
            ("ceo", "Jensen Huang"),
        ),
    ),
    "tsmc": CitedElement(
        "Company",
        ("Taiwan Semiconductor Manufacturing Company", "TSMC"),
        (
            ("revenue_2023_billion_usd", 69.3),
            ("market_share_foundry_percent", 61),
            ("capex_2024_guidance", "$28 billion to $32 billion"),
            ("advanced_node_share", 0.67),
            ("fabs", 13),
            ("utilization", "above 90 percent"),
        ),
    ),
    "asml": CitedElement(
        "Company",
        ("ASML Holding N.V.", "ASML"),
        (
            ("net_sales_2023_eur", 27_600_000_000),
            ("backlog_eur", 39_000_000_000),
            ("euv_systems_sold_2023", 53),
            ("euv_systems_sold_2022", 40),
            ("rd_spending_2023_eur", "€4.0bn"),
        ),
    ),
    "controls": CitedElement(
        "Event",
        ("US export controls of October 2023",),
        (
            (
                "summary",
                "The US Department of Commerce tightened export controls on advanced AI chips to China.",
            ),
            ("date", "2023-10-17"),
            ("affected_products", ["A800", "H800"]),
        ),
    ),
    "border": CitedElement("borders", ("Ghana", "Togo"), (("length_km", 1_098),), is_edge=True),
}
MISSION: Final = "Watch the cocoa trade of West Africa and its buyers, such as Barry Callebaut."
_PLACEHOLDER: Final = re.compile(r"\[(\w+)\]")


@dataclass(frozen=True)
class ConclusionCase:
    language: str
    content: str
    """With citations as `[ghana]`."""
    fault: Fault | None = None
    name: str = ""
    summary: str = ""

    @property
    def cited(self) -> list[CitedElement]:
        keys = dict.fromkeys(_PLACEHOLDER.findall(self.content))
        return [ELEMENTS[key] for key in keys if key in ELEMENTS]

    @property
    def texts(self) -> dict[str, str]:
        return {
            key: _PLACEHOLDER.sub(_citation, text)
            for key, text in (
                ("name", self.name),
                ("summary", self.summary),
                ("content", self.content),
            )
            if text
        }


def _citation(match: re.Match[str]) -> str:
    if match[1] not in ELEMENTS:
        return match[0]
    number = list(ELEMENTS).index(match[1]) + 1
    return f"[node:00000000-0000-4000-8000-{number:012}]"


def _true(language: str, *contents: str) -> list[ConclusionCase]:
    return [ConclusionCase(language, content) for content in contents]


def _false(language: str, fault: Fault, *contents: str) -> list[ConclusionCase]:
    return [ConclusionCase(language, content, fault) for content in contents]


CASES: Final[list[ConclusionCase]] = [
    # ---- English: values as they are
    *_true(
        "en",
        "Ghana has a population of 33,800,000 [ghana].",
        "Ghana has about 34 million people [ghana].",
        "Ghana's population is 33.8 million [ghana].",
        "About 33.8 m people live in Ghana [ghana].",
        "Ghana covers 238,533 km² [ghana] and Togo 56,785 km² [togo].",
        "Ghana covers some 238,500 square kilometres [ghana].",
        "Ghana's economy is worth USD 76.4 billion [ghana].",
        "Ghana's GDP is $76.37bn [ghana].",
        "Inflation in Ghana is 23.2 % [ghana], in Togo 5.3 percent [togo].",
        "Inflation in Ghana is about 23% [ghana].",
        "Orran AG employs 4,200 people and was founded in 1987 [orran].",
        "Orran has a market share of 12 % [orran].",
        "Orran's market share is 12.3 percent [orran].",
        "Orran AG, run by Lena Hartmann from Ulm, has five plants [orran].",
        "Orran's revenue was 934.5 million euros in 2023 [orran].",
        "Orran had revenue of €935 million in 2023 [orran].",
        "Orran's X200 inverter is built in 5 plants with a capacity of 120 MW [orran].",
        "Kestrel Mining has been listed since 17 May 2011 [kestrel].",
        "Kestrel Mining has been listed since May 2011 and trades at $3.85 [kestrel].",
        "Kestrel's reserves are 1.9 million tonnes [kestrel].",
        "Kestrel's reserves are 1.9 Mt [kestrel].",
        "Kestrel plans a second mine in Chile by 2027 [kestrel].",
        "Orran has supplied 38 % of what Halden needs since 2019 [supplies].",
        "The border of Ghana and Togo is 1,098 km long [border].",
        "The border of the two is about 1,100 km long [border].",
        "The population of Ghana was 32.4 million before [ghana].",
        "More than 33 million people live in Ghana [ghana].",
        "Togo has fewer than 9 million people [togo].",
        "Lithium costs 14,250 USD a tonne, after 71,000 USD before [lithium].",
        "Demand for lithium reached 917,000 tonnes in 2023 [lithium].",
        "As of 31 March 2024, Orran has 4,200 employees [orran].",
    ),
    # ---- English: arithmetic that is shown
    *_true(
        "en",
        "Ghana has 33.8 million people [ghana] and Togo 8.65 million [togo], 25.15 million fewer.",
        "With 33.8 million against 8.65 million people, Ghana [ghana] is 3.9 times as large as Togo [togo].",
        "Ghana [ghana] has 33.8 million people, almost four times as many as Togo [togo] with 8.65 million.",
        "Togo's population of 8.65 million [togo] is about a quarter of Ghana's 33.8 million [ghana].",
        "33,800,000 / 8,650,000 = 3.9: Ghana [ghana] is that much larger than Togo [togo].",
        "Together, Ghana (33.8 million) [ghana] and Togo (8.65 million) [togo] have 42.45 million people.",
        "Ghana (33.8 million) [ghana], Togo (8.65 million) [togo] and Benin (13.7 million) [benin] have 56.2 million "
        "people in all.",
        "On average, inflation is 10.4 %: 23.2 % in Ghana [ghana], 5.3 % in Togo [togo] and 2.7 % in Benin [benin].",
        "Orran's revenue rose from 812 million euros in 2022 to 934.5 million in 2023, by 15 % [orran].",
        "Orran's revenue grew by 15.1 percent, from €812 million to €934.5 million [orran].",
        "Orran's revenue was EUR 812 million in 2022 and EUR 934.5 million in 2023, up EUR 122.5 million [orran].",
        "Halden's revenue fell 10 % from 310 to 279 million euros [halden].",
        "Halden's revenue fell by EUR 31 million, from EUR 310 million to EUR 279 million [halden].",
        "Kestrel's output climbed from 41,200 to 48,700 tonnes, an increase of 18 % [kestrel].",
        "(48,700 - 41,200) / 41,200 = 18.2 %: Kestrel's output grows [kestrel].",
        "48,700 − 41,200 = 7,500 tonnes more at Kestrel [kestrel].",
        "Lithium fell from 71,000 USD to 14,250 USD a tonne, a drop of 80 % [lithium].",
        "At 14,250 USD, lithium costs a fifth of the 71,000 USD before [lithium].",
        "Demand rose from 745,000 t in 2022 to 917,000 t in 2023, by 23 % [lithium].",
        "Inflation of 23.2 % in Ghana [ghana] is 17.9 percentage points above the 5.3 % of Togo [togo].",
        "Kestrel's 48,700 tonnes [kestrel] are 5.3 % of the demand of 917,000 tonnes [lithium].",
        "Orran (4,200) [orran] and Halden (1,150) [halden] employ 5,350 people in total.",
        "Orran [orran] has 3.65 times the staff of Halden [halden]: 4,200 against 1,150.",
        "Of the 42.45 million people in Ghana (33.8 million) [ghana] and Togo (8.65 million) [togo], 80 % live in Ghana.",
        "Orran was founded in 1987 [orran] and Halden in 2003 [halden], 16 years later.",
        "Orran's market share of 12.34 % [orran] is more than double Halden's 5 % [halden].",
        "Ghana's GDP of 76.37 billion USD divided by 33.8 million people is about 2,260 USD a head [ghana].",
        "Togo's GDP per head is 9.17 billion / 8.65 million = 1,060 USD [togo].",
        "38 % come from Orran, the other 62 % from others [supplies].",
        "Halden's revenue of EUR 279 million is some EUR 655.5 million below the EUR 934.5 million of Orran "
        "[halden] [orran].",
        "Orran's revenue in millions of euros went from 812 to 934.5, so it grew by a factor of 1.15 [orran].",
        "Burkina Faso [burkina] has 23.25 million people, 2.7x as many as Togo [togo] with 8.65 million.",
    ),
    # ---- English: ranks and counts
    *_true(
        "en",
        "Of Ghana [ghana], Togo [togo] and Benin [benin], Ghana has the largest population: 33.8 million.",
        "Benin [benin] is the second largest of the three by population, behind Ghana [ghana] and ahead of Togo [togo].",
        "Ghana [ghana] has the highest inflation of the five countries, at 23.2 %; Burkina Faso has the lowest, at "
        "0.7 % [burkina] [togo] [benin] [ivory].",
        "All three countries are in the same region [ghana] [togo] [benin].",
        "Three of the five cited countries have inflation below 5 % [ghana] [togo] [benin] [burkina] [ivory].",
        "There are two reasons for this: Ghana is larger, and its economy is as well [ghana].",
        "First, Ghana is large [ghana]. Second, Togo is not [togo].",
        "1. Ghana has 33.8 million people [ghana].\n2. Togo has 8.65 million [togo].",
        "Côte d'Ivoire [ivory] has the third-lowest inflation of the five, 4.4 %, after Burkina Faso [burkina] and Benin "
        "[benin], and before Togo [togo] and Ghana [ghana].",
        "The two makers have 5 and 2 plants [orran] [halden], seven in all.",
        "By GDP, Ivory Coast [ivory] ranks first with 78.88 billion USD and Ghana [ghana] second with 76.37 billion USD.",
    ),
    # ---- English: names, structure, what is no claim
    *_true(
        "en",
        "Ivory Coast has 28.87 million people [ivory].",
        "Ghanaian inflation hurts. However, the Ghanaian economy is large [ghana].",
        "**Key risk:** inflation of 23.2 % [ghana]\n\n## Outlook\n\nAccra must act.",
        "Buyers such as Barry Callebaut depend on Ghana [ghana].",
        "West African cocoa comes from Ghana, too [ghana].",
        "| Country | Population |\n|---|---|\n| Ghana | 33.8 million [ghana] |\n| Togo | 8.65 million [togo] |",
        "Confidence is moderate. Orran depends on one customer: Halden [supplies].",
        "It is likely, by my confidence of 0.7, that the price will recover within 6 months [lithium].",
        "Dr. Hartmann leads Orran from Germany [orran].",
        "The CEO of Orran is Dr. Lena Hartmann; its HQ is in Ulm [orran].",
        "KML, as Kestrel Mining Ltd is called, has reserves [kestrel].",
        "Orran and Halden are tied: the former supplies the latter [supplies]. Their CEOs should worry.",
    ),
    # ---- English: false
    *_false(
        "en",
        "number",
        "Ghana has a population of 38,300,000 [ghana].",
        "Ghana's population is 35.8 million [ghana].",
        "Ghana covers 328,533 km² [ghana].",
        "Inflation in Ghana is 32.2 % [ghana].",
        "Orran AG employs 2,400 people [orran].",
        "Orran has four plants [orran].",
        "Halden has three plants [halden].",
        "Orran has a market share of 21 % [orran].",
        "Orran's revenue was 943.5 million euros in 2023 [orran].",
        "The border of Ghana and Togo is 1,089 km long [border].",
        "Orran supplies 83 % of what Halden needs [supplies].",
        "Kestrel trades at $8.35 [kestrel].",
        "Orran's X300 inverter sells well [orran].",
        "More than 40 million people live in Ghana [ghana].",
        "Togo has fewer than 7 million people [togo].",
        "There are 17 ministers in Ghana [ghana].",
    ),
    *_false(
        "en",
        "scale",
        "Ghana's GDP is $76.37 million [ghana].",
        "Kestrel's reserves are 1.9 billion tonnes [kestrel].",
        "Ghana has 338 million people [ghana].",
        "Orran's revenue was 934.5 billion euros in 2023 [orran].",
        "Togo has 865,000 people [togo].",
    ),
    *_false(
        "en",
        "unit",
        "Ghana covers 238,533 square miles [ghana].",
        "Orran has a capacity of 120 GW [orran].",
        "Inflation in Togo is 5.3 percentage points [togo].",
        "Orran has 4,200 tonnes [orran].",
        "The border is 1,098 miles long [border].",
        "Orran's 5 % plants are busy [orran].",
        "Inflation of 23.2 % in Ghana [ghana] is 17.9 percent above the 5.3 % of Togo [togo].",
    ),
    *_false(
        "en",
        "currency",
        "Ghana's economy is worth EUR 76.37 billion [ghana].",
        "Orran's revenue was $934.5 million in 2023 [orran].",
        "Kestrel trades at 3.85 pounds [kestrel].",
        "Ghana has 33.8 million dollars [ghana].",
    ),
    *_false(
        "en",
        "rounding",
        "Ghana has 30 million people [ghana].",
        "Orran's revenue is about 1 billion euros [orran].",
        "Orran employs about 4,000 people [orran].",
        "Togo's economy is worth 10 billion USD [togo].",
        "Kestrel's output is about 50,000 tonnes [kestrel].",
    ),
    *_false(
        "en",
        "date",
        "Orran was founded in 1978 [orran].",
        "Kestrel Mining has been listed since 17 June 2011 [kestrel].",
        "Kestrel Mining has been listed since May 2012 [kestrel].",
        "Orran has supplied Halden since 2018 [supplies].",
        "Kestrel plans a second mine by 2029 [kestrel].",
        "By 31 March 2023, Orran had 4,200 employees [orran].",
    ),
    *_false(
        "en",
        "growth",
        "Orran's revenue rose from 812 million euros to 934.5 million, by 25 % [orran].",
        "Kestrel's output climbed from 41,200 to 48,700 tonnes, an increase of 28 % [kestrel].",
        "Demand rose from 745,000 t to 917,000 t, by 19 % [lithium].",
        "Lithium fell from 71,000 USD to 14,250 USD a tonne, a drop of 90 % [lithium].",
        "(48,700 - 41,200) / 41,200 = 16.2 %: Kestrel's output grows [kestrel].",
        "Halden's revenue fell 11 % from 310 to 279 million euros [halden].",
    ),
    *_false(
        "en",
        "sign",
        "Halden's revenue rose 10 % from 310 to 279 million euros [halden].",
        "Orran's revenue fell from 812 to 934.5 million euros [orran].",
        "Orran's revenue was EUR 812 million in 2022 and EUR 934.5 million in 2023, a decline of 15 % [orran].",
        "Lithium went from 71,000 USD to 14,250 USD, an increase of 80 % [lithium].",
    ),
    *_false(
        "en",
        "ratio",
        "With 33.8 million against 8.65 million people, Ghana [ghana] is 4.9 times as large as Togo [togo].",
        "Ghana [ghana] has 33.8 million people, three times as many as Togo [togo] with 8.65 million.",
        "Togo [togo] has 8.65 million people, 3.9 times as many as Ghana [ghana] with 33.8 million.",
        "Orran's market share of 12.34 % [orran] is triple Halden's 5 % [halden].",
        "33,800,000 / 8,650,000 = 4.2 [ghana] [togo].",
        "Burkina Faso [burkina] has 23.25 million people, twice as many as Togo [togo] with 8.65 million.",
    ),
    *_false(
        "en",
        "share",
        "Kestrel's 48,700 tonnes [kestrel] are 7.3 % of the demand of 917,000 tonnes [lithium].",
        "Togo's population of 8.65 million [togo] is about a third of Ghana's 33.8 million [ghana].",
        "38 % come from Orran, the other 52 % from others [supplies].",
    ),
    *_false(
        "en",
        "difference",
        "Ghana has 33.8 million people [ghana] and Togo 8.65 million [togo], 26.15 million fewer.",
        "48,700 − 41,200 = 8,500 tonnes more at Kestrel [kestrel].",
        "Orran's revenue was EUR 812 million in 2022 and EUR 934.5 million in 2023, up EUR 132.5 million [orran].",
        "Inflation of 23.2 % in Ghana [ghana] is 15 percentage points above the 5.3 % of Togo [togo].",
        "Orran was founded in 1987 [orran] and Halden in 2003 [halden], 26 years later.",
    ),
    *_false(
        "en",
        "sum",
        "Together, Ghana (33.8 million) [ghana] and Togo (8.65 million) [togo] have 44.5 million people.",
        "Orran (4,200) [orran] and Halden (1,150) [halden] employ 5,530 people in total.",
    ),
    *_false(
        "en",
        "average",
        "On average, inflation is 12.4 %: 23.2 % in Ghana [ghana], 5.3 % in Togo [togo] and 2.7 % in Benin [benin].",
    ),
    *_false(
        "en",
        "rank",
        "Benin [benin] is the third largest of the three by population, behind Ghana [ghana] and Togo [togo].",
        "Of Ghana [ghana], Togo [togo] and Benin [benin], Benin has the largest population: 13.7 million.",
        "By GDP, Ghana [ghana] ranks first with 76.37 billion USD, before Ivory Coast [ivory] with 78.88 billion USD.",
        "Togo [togo] has the second-highest population of the three, 8.65 million [ghana] [benin].",
        "Togo has the lowest inflation of the three, at 5.3 % [togo] [benin] [ghana].",
        "Kestrel is the fourth-largest miner in the world [kestrel].",
    ),
    *_false(
        "en",
        "count",
        "All four countries are in the same region [ghana] [togo] [benin].",
        "Three of the six cited countries have low inflation [ghana] [togo] [benin] [burkina] [ivory].",
        "Nine countries share this trait [ghana] [togo].",
    ),
    *_false(
        "en",
        "operands",
        "Ghana [ghana] is 3.9 times as large as Togo [togo].",
        "Orran's revenue grew by 15 % [orran].",
        "Compared with 2022, Kestrel produced 7,500 t more in 2023 (+18 %) [kestrel].",
    ),
    *_false(
        "en",
        "other node",
        "Ghana has 33.8 million people [ghana] and Togo 8.65 million.",
        "Benin has 13.7 million people [ghana].",
        "Lithium costs 14,250 USD a tonne, which helps Orran [orran].",
        "Halden's revenue was 279 million euros in 2023, Orran's 934.5 million [orran].",
    ),
    *_false(
        "en",
        "name",
        "Ghana and Nigeria compete [ghana].",
        "Nigeria is larger than Ghana [ghana].",
        "Orran is run by Peter Walden [orran].",
        "The capital of Togo is Kpalimé [togo].",
        "Buyers such as Cargill depend on Ghana [ghana].",
        "The mine of Kestrel is owned by Ardent Holdings [kestrel].",
        "Orran wants to build a plant in Leipzig [orran].",
        "The IMF supports Ghana [ghana].",
        "Orran competes with Vestrum GmbH [orran].",
        "In Ghana, the Bank of Kumasi lends less [ghana].",
        "Kestrel works with Rio Tinto in Chile [kestrel].",
        "Chinese buyers avoid Togo [togo].",
    ),
    # ---- German
    *_true(
        "de",
        "Ghana hat 33.800.000 Einwohner [ghana].",
        "Ghana hat rund 34 Millionen Einwohner [ghana].",
        "Ghana hat 33,8 Mio. Einwohner, Togo 8,65 Mio. [ghana] [togo].",
        "Die Fläche von Ghana beträgt 238.533 km² [ghana].",
        "Die Wirtschaft von Ghana ist 76,4 Milliarden Dollar wert [ghana].",
        "Die Inflation in Ghana liegt bei 23,2 Prozent [ghana], in Togo bei 5,3 % [togo].",
        "Orran beschäftigt 4.200 Menschen und wurde 1987 gegründet [orran].",
        "Der Marktanteil von Orran liegt bei 12 % [orran].",
        "Die Orran AG aus Ulm wird von Lena Hartmann geführt und hat fünf Werke [orran].",
        "Kestrel Mining ist seit dem 17. Mai 2011 an der Börse [kestrel].",
        "Kestrel hat Reserven von 1,9 Millionen Tonnen [kestrel].",
        "Die Grenze ist etwa 1.100 km lang [border].",
        "Der Umsatz von Orran stieg von 812 Mio. Euro auf 934,5 Mio. Euro, also um 15 % [orran].",
        "Der Umsatz von Halden sank um 10 Prozent, von 310 auf 279 Millionen Euro [halden].",
        "Mit 33,8 Millionen hat Ghana [ghana] fast viermal so viele Einwohner wie Togo [togo] mit 8,65 Millionen.",
        "Ghana [ghana] ist mit 33,8 Millionen Einwohnern 3,9-mal so groß wie Togo [togo] mit 8,65 Millionen.",
        "Ghana (33,8 Mio.) [ghana] und Togo (8,65 Mio.) [togo] haben zusammen 42,45 Mio. Einwohner.",
        "Das sind 25,15 Millionen mehr: 33,8 Millionen in Ghana [ghana], 8,65 Millionen in Togo [togo].",
        "Die Inflation von 23,2 % in Ghana [ghana] liegt 17,9 Prozentpunkte über den 5,3 % in Togo [togo].",
        "48.700 − 41.200 = 7.500 Tonnen mehr bei Kestrel [kestrel].",
        "Der Preis fiel von 71.000 auf 14.250 USD je Tonne, um 80 % [lithium].",
        "Im Durchschnitt liegt die Inflation bei 10,4 %: 23,2 % in Ghana [ghana], 5,3 % in Togo [togo], 2,7 % "
        "in Benin [benin].",
        "Ghana [ghana] hat mit 33,8 Millionen die größte Bevölkerung der drei Länder, vor Benin [benin] und Togo [togo].",
        "Benin [benin] ist das zweitgrößte der drei Länder nach Bevölkerung, hinter Ghana [ghana], vor Togo [togo].",
        "Es gibt zwei Gründe: Erstens ist Ghana groß [ghana], zweitens ist Togo klein [togo].",
        "Die Elfenbeinküste hat 28,87 Millionen Einwohner [ivory].",
        "Der Marktanteil von Orran ist mit 12,34 % [orran] mehr als doppelt so hoch wie der von Halden mit 5 % [halden].",
        "Orran und Halden beschäftigen insgesamt 5.350 Menschen, nämlich 4.200 und 1.150 [orran] [halden].",
        "Die 48.700 Tonnen von Kestrel [kestrel] sind 5,3 % des Bedarfs von 917.000 Tonnen [lithium].",
        "Seit 2019 liefert Orran 38 % des Bedarfs von Halden [supplies].",
        "Mehr als 33 Millionen Menschen leben in Ghana [ghana].",
        "Das Bruttoinlandsprodukt je Kopf beträgt in Togo 9,17 Mrd. / 8,65 Mio. = 1.060 USD [togo].",
        "**Risiko:** Die Abhängigkeit von einem einzigen Kunden, der Halden SA, ist hoch [supplies].",
        "Die Nachfrage wuchs von 745.000 auf 917.000 Tonnen, das Plus beträgt 172.000 Tonnen [lithium].",
        "Togos Bevölkerung von 8,65 Millionen [togo] ist etwa ein Viertel der 33,8 Millionen Ghanas [ghana].",
    ),
    *_false(
        "de",
        "number",
        "Ghana hat 38.300.000 Einwohner [ghana].",
        "Die Fläche von Ghana beträgt 283.533 km² [ghana].",
        "Die Inflation in Ghana liegt bei 22,3 Prozent [ghana].",
        "Orran beschäftigt 2.400 Menschen [orran].",
        "Der Marktanteil von Orran liegt bei 21 % [orran].",
        "Seit 2019 liefert Orran 83 % des Bedarfs von Halden [supplies].",
        "Orran hat sieben Werke [orran].",
    ),
    *_false(
        "de",
        "scale",
        "Ghana hat 33,8 Milliarden Einwohner [ghana].",
        "Die Wirtschaft von Ghana ist 76,4 Billionen Dollar wert [ghana].",
        "Kestrel hat Reserven von 1,9 Milliarden Tonnen [kestrel].",
    ),
    *_false(
        "de",
        "unit",
        "Die Grenze ist 1.098 Meilen lang [border].",
        "Die Inflation in Togo beträgt 5,3 Prozentpunkte [togo].",
        "Die Leistung von Orran beträgt 120 kW [orran].",
    ),
    *_false(
        "de",
        "currency",
        "Die Wirtschaft von Ghana ist 76,4 Milliarden Euro wert [ghana].",
        "Der Umsatz von Orran lag 2023 bei 934,5 Millionen Franken [orran].",
    ),
    *_false(
        "de",
        "rounding",
        "Ghana hat etwa 30 Millionen Einwohner [ghana].",
        "Orran beschäftigt 5.000 Menschen [orran].",
    ),
    *_false(
        "de",
        "date",
        "Orran wurde 1978 gegründet [orran].",
        "Kestrel Mining ist seit dem 17. März 2011 an der Börse [kestrel].",
    ),
    *_false(
        "de",
        "growth",
        "Der Umsatz von Orran stieg von 812 Mio. Euro auf 934,5 Mio. Euro, also um 51 % [orran].",
        "Die Nachfrage wuchs von 745.000 auf 917.000 Tonnen, um 32 Prozent [lithium].",
    ),
    *_false(
        "de",
        "sign",
        "Der Umsatz von Halden stieg um 10 Prozent, von 310 auf 279 Millionen Euro [halden].",
        "Der Preis stieg von 71.000 auf 14.250 USD je Tonne [lithium].",
    ),
    *_false(
        "de",
        "ratio",
        "Mit 33,8 Millionen hat Ghana [ghana] sechsmal so viele Einwohner wie Togo [togo] mit 8,65 Millionen.",
        "Togo [togo] ist mit 8,65 Millionen Einwohnern 3,9-mal so groß wie Ghana [ghana] mit 33,8 Millionen.",
        "Der Marktanteil von Orran ist mit 12,34 % [orran] dreimal so hoch wie der von Halden mit 5 % [halden].",
    ),
    *_false(
        "de",
        "share",
        "Die 48.700 Tonnen von Kestrel [kestrel] sind 8 % des Bedarfs von 917.000 Tonnen [lithium].",
    ),
    *_false(
        "de",
        "difference",
        "Das sind 27 Millionen mehr: 33,8 Millionen in Ghana [ghana], 8,65 Millionen in Togo [togo].",
        "48.700 − 41.200 = 6.500 Tonnen mehr bei Kestrel [kestrel].",
        "Die Inflation von 23,2 % in Ghana [ghana] liegt 19,7 Prozentpunkte über den 5,3 % in Togo [togo].",
    ),
    *_false(
        "de",
        "sum",
        "Ghana (33,8 Mio.) [ghana] und Togo (8,65 Mio.) [togo] haben zusammen 45 Mio. Einwohner.",
    ),
    *_false(
        "de",
        "rank",
        "Benin [benin] ist das drittgrößte der drei Länder nach Bevölkerung, hinter Ghana [ghana] und Togo [togo].",
        "Togo [togo] hat mit 8,65 Millionen die größte Bevölkerung der drei Länder, vor Benin [benin] und Ghana [ghana].",
    ),
    *_false(
        "de", "count", "Alle vier Länder der Region wachsen, sagen acht Quellen [ghana] [togo]."
    ),
    *_false("de", "operands", "Ghana [ghana] hat 3,9-mal so viele Einwohner wie Togo [togo]."),
    *_false(
        "de",
        "other node",
        "Benin hat 13,7 Millionen Einwohner [ghana].",
        "Halden hat 1.150 Beschäftigte, Orran 4.200 [orran].",
    ),
    *_false(
        "de",
        "name",
        "Ghana und Nigeria stehen im Wettbewerb [ghana].",
        "Orran wird von Peter Walden geführt [orran].",
        "Orran plant ein Werk in Leipzig [orran].",
        "Die Vestrum GmbH beliefert Orran [orran].",
        "In Togo investiert die Ardent Holding aus Zürich [togo].",
        "Der IWF hilft Ghana [ghana].",
    ),
    # ---- French
    *_true(
        "fr",
        "Le Ghana compte 33,8 millions d'habitants [ghana].",
        "La superficie du Ghana est de 238 533 km² [ghana].",
        "L'inflation au Ghana est de 23,2 % [ghana], contre 5,3 % au Togo [togo], soit 17,9 points de pourcentage de plus.",
        "Le chiffre d'affaires d'Orran est passé de 812 à 934,5 millions d'euros, en hausse de 15 % [orran].",
        "La Côte d'Ivoire compte 28,87 millions d'habitants [ivory].",
        "Orran et Halden emploient au total 5 350 personnes : 4 200 et 1 150 [orran] [halden].",
        "Avec 33,8 millions d'habitants, le Ghana [ghana] est presque quatre fois plus peuplé que le Togo "
        "(8,65 millions) [togo].",
        "Orran, fondée en 1987, possède cinq usines [orran].",
    ),
    *_false(
        "fr",
        "number",
        "Le Ghana compte 38,3 millions d'habitants [ghana].",
        "La superficie du Ghana est de 283 533 km² [ghana].",
    ),
    *_false("fr", "scale", "Le Ghana compte 33,8 milliards d'habitants [ghana]."),
    *_false(
        "fr",
        "currency",
        "Le chiffre d'affaires d'Orran était de 934,5 millions de dollars en 2023 [orran].",
    ),
    *_false("fr", "date", "Orran a été fondée en 1978 [orran]."),
    *_false(
        "fr",
        "growth",
        "Le chiffre d'affaires d'Orran est passé de 812 à 934,5 millions d'euros, en hausse de 25 % [orran].",
    ),
    *_false(
        "fr",
        "ratio",
        "Avec 33,8 millions d'habitants, le Ghana [ghana] est six fois plus peuplé que le Togo (8,65 millions) [togo].",
    ),
    *_false(
        "fr",
        "name",
        "Le Ghana et le Nigeria sont voisins [ghana].",
        "Orran est dirigée par Jean Dupont [orran].",
    ),
    # ---- Spanish
    *_true(
        "es",
        "Ghana tiene 33,8 millones de habitantes [ghana].",
        "La inflación de Ghana es del 23,2 % [ghana], la de Togo del 5,3 % [togo].",
        "Los ingresos de Orran subieron de 812 a 934,5 millones de euros, un 15 % más [orran].",
        "Costa de Marfil tiene 28,87 millones de habitantes [ivory].",
        "La frontera mide 1.098 km [border].",
        "En total, Orran y Halden emplean a 5.350 personas: 4.200 y 1.150 [orran] [halden].",
        "La producción de Kestrel pasó de 41.200 a 48.700 toneladas, 7.500 toneladas más [kestrel].",
    ),
    *_false(
        "es",
        "number",
        "Ghana tiene 38,3 millones de habitantes [ghana].",
        "La frontera mide 1.089 km [border].",
    ),
    *_false("es", "currency", "Los ingresos de Orran fueron de 934,5 millones de dólares [orran]."),
    *_false(
        "es",
        "growth",
        "Los ingresos de Orran subieron de 812 a 934,5 millones de euros, un 5 % más [orran].",
    ),
    *_false(
        "es",
        "difference",
        "La producción de Kestrel pasó de 41.200 a 48.700 toneladas, 8.500 toneladas más [kestrel].",
    ),
    *_false("es", "date", "Kestrel cotiza desde mayo de 2013 [kestrel]."),
    *_false(
        "es",
        "name",
        "Ghana compite con Nigeria [ghana].",
        "Orran está dirigida por Pedro Morales [orran].",
    ),
    # ---- Languages that are not known
    *_true(
        "pl",
        "Ghana ma 33,8 mln mieszkańców [ghana], a Togo 8,65 mln [togo].",
        "Inflacja w Ghanie wynosi 23,2 % [ghana].",
    ),
    *_false(
        "pl",
        "number",
        "Ghana ma 38,3 mln mieszkańców [ghana].",
        "Inflacja w Ghanie wynosi 32,2 % [ghana].",
    ),
    *_true("zh", "加纳的通货膨胀率为 23.2% [ghana]。"),
    *_false("zh", "number", "加纳的通货膨胀率为 32.2% [ghana]。"),
    # ---- Longer texts, as models write them
    *_true(
        "en",
        "## Key finding\n\nOrran AG grew faster than its customer Halden SA in 2023. Orran's revenue rose "
        "from €812 million to "
        "€934.5 million [orran], an increase of about 15%, while Halden's fell from €310 million to €279 "
        "million [halden], a "
        "decline of 10%.\n\n**Why it matters:** Halden buys 38% of its supply from Orran [supplies]. If Halden keeps "
        "shrinking, a part of Orran's growth is at risk.\n\n**Confidence:** moderate (0.7), because only two "
        "years are known.",
        "### Summary\n\n- **Population:** Ghana 33.8 million [ghana], Côte d'Ivoire 28.87 million [ivory], "
        "Burkina Faso 23.25 "
        "million [burkina]\n- **Inflation:** Ghana 23.2% [ghana], Côte d'Ivoire 4.4% [ivory], Burkina Faso "
        "0.7% [burkina]\n\n"
        "Ghana combines the largest population of the three with the highest inflation. The gap in inflation to Côte "
        "d'Ivoire is 18.8 percentage points (23.2 - 4.4).",
        "The lithium price has collapsed from USD 71,000 to USD 14,250 per tonne [lithium], i.e. by roughly "
        "80%. Over the same "
        "period demand grew by 23%, from 745,000 t to 917,000 t [lithium]. This suggests that supply has grown faster than "
        "demand. Kestrel Mining, which increased its output by 18% (41,200 t to 48,700 t) [kestrel], is "
        "exposed: at 14,250 USD "
        "a tonne, 48,700 t are worth about 694 million USD (48,700 × 14,250), while at 71,000 USD they would "
        "have been worth "
        "about 3.46 billion USD (48,700 × 71,000) [lithium] [kestrel].",
        "Observation: Togo and Benin have similar economies per head. Togo's GDP of $9.17 billion [togo] "
        "divided by 8.65 million "
        "people gives $1,060 per person; Benin's $19.67 billion [benin] divided by 13.7 million gives $1,436 "
        "per person. Benin "
        "is thus about 35% ahead.",
        "Three points stand out:\n\n1. Orran dominates: with 4,200 employees [orran] it has more than three times the "
        "workforce of Halden (1,150) [halden].\n2. Orran is in Ulm, Germany, and Halden in Lyon.\n3. Orran is "
        "the older firm "
        "(founded 1987, against 2003).\n\nRevenue per employee was about €222,500 at Orran (934.5 million / "
        "4,200) and about "
        "€242,600 at Halden (279 million / 1,150).",
        "| Country | GDP (USD bn) | Inflation |\n|---|---:|---:|\n| Ghana | 76.37 | 23.2% | \n| Togo | 9.17 | "
        "5.3% |\n| Benin | "
        "19.67 | 2.7% |\n\nGhana's economy [ghana] is about 8.3 times Togo's [togo] and 3.9 times Benin's [benin].",
        "The correlation is weak: the country with the largest economy, Côte d'Ivoire (78.88 billion USD) [ivory], has an "
        "inflation of only 4.4%, but Ghana, with an almost equally large economy (76.37 billion USD) [ghana], "
        "suffers 23.2%. "
        "The difference in GDP is 2.51 billion USD, or about 3%.",
        "Orran's dependence on a single customer is a risk [supplies]. The relationship has lasted since 2019, and the "
        "share of 38 % has not been reported to have changed. What speaks against this: Orran's own growth [orran].",
        "Kestrel's reserves of 1.9 million tonnes would last for about 39 years at the output of 2023, 48,700 "
        "tonnes (1,900,000 "
        "/ 48,700) [kestrel].",
        "Combined, the five countries have 108.27 million people: Ghana 33.8 [ghana], Côte d'Ivoire 28.87 "
        "[ivory], Burkina Faso "
        "23.25 [burkina], Benin 13.7 [benin] and Togo 8.65 million [togo]. Ghana accounts for 31% of that.",
        "Ghana's population grew from 32.4 million to 33.8 million, or by 4.3% [ghana].",
        "Halden's sales dropped 10.0% year on year, from EUR 310m to EUR 279m [halden]; Orran's went up 15.1% to EUR 934.5m "
        "from EUR 812m [orran].",
        "In short: no clear trend. Togo and Ghana share a border of 1,098 km [border], and trade between them "
        "is likely, but "
        "the graph has no figures on it.",
        "Population density: Ghana has 33.8 million people on 238,533 km² [ghana], about 142 people per km²; Togo has 8.65 "
        "million on 56,785 km² [togo], about 152 per km².",
        "It seems plausible that Orran gains market share. Its share is 12.3% [orran] versus 5% for Halden [halden], which "
        "is 7.3 percentage points more and nearly 2.5 times as much.",
        "Lithium at USD 14,250/t is down about four-fifths from its peak of USD 71,000/t [lithium].",
        "Dr. Lena Hartmann's Orran AG, headquartered in Ulm, makes the X200 inverter [orran]. I see no "
        "evidence that Orran is "
        "selling to anyone but Halden [supplies].",
        "Demand for lithium outpaced Kestrel's growth: +23% (745,000 t to 917,000 t) [lithium] against +18% (41,200 t to "
        "48,700 t) [kestrel].",
    ),
    *_true(
        "de",
        "## Befund\n\nOrran wuchs 2023 schneller als sein Kunde Halden. Der Umsatz von Orran stieg von 812 Mio. € auf 934,5 "
        "Mio. € [orran], ein Plus von rund 15 %. Der Umsatz von Halden sank dagegen von 310 Mio. € auf 279 Mio. € [halden], "
        "ein Minus von 10 %.\n\n**Bedeutung:** Halden bezieht 38 % seines Bedarfs von Orran [supplies]. Schrumpft Halden "
        "weiter, ist ein Teil des Wachstums von Orran gefährdet.",
        "- **Bevölkerung:** Ghana 33,8 Mio. [ghana], Elfenbeinküste 28,87 Mio. [ivory], Burkina Faso 23,25 Mio. [burkina]\n"
        "- **Inflation:** Ghana 23,2 %, Elfenbeinküste 4,4 %, Burkina Faso 0,7 %\n\nGhana hat also die größte "
        "Bevölkerung und "
        "zugleich die höchste Inflation der drei Länder.",
        "Der Lithiumpreis ist von 71.000 USD auf 14.250 USD je Tonne gefallen [lithium], also um etwa 80 "
        "Prozent. Die Nachfrage "
        "stieg im gleichen Zeitraum von 745.000 t auf 917.000 t, das sind 172.000 t oder 23 % mehr. Offenbar "
        "ist das Angebot "
        "noch schneller gewachsen als die Nachfrage.",
        "Je Einwohner erwirtschaftet Togo rund 1.060 USD (9,17 Mrd. USD / 8,65 Mio.) [togo], Benin rund 1.436 "
        "USD (19,67 Mrd. USD "
        "/ 13,7 Mio.) [benin]. Benin liegt damit um etwa 35 % höher.",
        "Die Förderung von Kestrel stieg 2023 um 7.500 Tonnen auf 48.700 Tonnen, nach 41.200 Tonnen im Jahr "
        "2022 [kestrel]. Die "
        "Reserven von 1,9 Mio. Tonnen reichen bei dieser Förderung rund 39 Jahre (1.900.000 / 48.700).",
        "Drei Punkte fallen auf: Erstens hat Orran mit 4.200 Beschäftigten [orran] mehr als dreimal so viele "
        "wie Halden mit 1.150 "
        "[halden]. Zweitens ist Orran mit dem Gründungsjahr 1987 das ältere Unternehmen, Halden folgte 16 "
        "Jahre später im Jahr "
        "2003. Drittens verbindet beide eine Lieferbeziehung [supplies].",
    ),
    *_true(
        "fr",
        "Le prix du lithium est tombé de 71 000 à 14 250 dollars la tonne [lithium], soit une baisse de 80 %. La demande a "
        "pourtant augmenté de 23 %, passant de 745 000 à 917 000 tonnes.",
        "Le Ghana (33,8 millions d'habitants) [ghana] et le Togo (8,65 millions) [togo] comptent ensemble 42,45 millions "
        "d'habitants. Le Ghana en représente 80 %.",
    ),
    *_true(
        "es",
        "El precio del litio cayó de 71.000 a 14.250 dólares por tonelada [lithium], es decir, un 80 %. La "
        "demanda, en cambio, "
        "subió un 23 %, de 745.000 a 917.000 toneladas.",
    ),
    *_false(
        "en",
        "growth",
        "## Key finding\n\nOrran AG grew faster than its customer Halden SA in 2023. Orran's revenue rose "
        "from €812 million to "
        "€934.5 million [orran], an increase of about 19%, while Halden's fell from €310 million to €279 "
        "million [halden], a "
        "decline of 10%.",
    ),
    *_false(
        "en",
        "number",
        "The lithium price has collapsed from USD 71,000 to USD 14,250 per tonne [lithium]. Analysts expect "
        "USD 11,000 next year.",
        "Three points stand out:\n\n1. Orran has 4,200 employees [orran].\n2. It exports 60% of its "
        "production.\n3. It is old.",
    ),
    *_false(
        "en",
        "ratio",
        "| Country | GDP (USD bn) |\n|---|---:|\n| Ghana | 76.37 |\n| Togo | 9.17 |\n\nGhana's economy "
        "[ghana] is about 7.3 times "
        "Togo's [togo].",
    ),
    *_false(
        "en",
        "name",
        "- **Ghana:** large [ghana]\n- **Nigeria:** larger still",
        "**Kosmos Energy** operates in Ghana [ghana].",
        "The price fell [lithium], as Albemarle and SQM expanded.",
        "Orran supplies Halden [supplies], and Halden supplies Vestrum.",
    ),
    *_false(
        "en",
        "sum",
        "Combined, Ghana 33.8 [ghana], Côte d'Ivoire 28.87 [ivory] and Benin 13.7 million [benin] have 86.37 "
        "million people.",
    ),
    *_false(
        "en",
        "rank",
        "The country with the second-largest economy of the five is Burkina Faso (20.32 billion USD) "
        "[burkina] [ghana] [togo] "
        "[benin] [ivory].",
    ),
    *_false(
        "en",
        "difference",
        "Orran's share is 12.3% [orran] versus 5% for Halden [halden], which is 9.3 percentage points more.",
    ),
    *_false(
        "de",
        "growth",
        "Der Umsatz von Orran stieg von 812 Mio. € auf 934,5 Mio. € [orran], ein Plus von rund 18 %. Der "
        "Umsatz von Halden sank "
        "dagegen von 310 Mio. € auf 279 Mio. € [halden], ein Minus von 10 %.",
    ),
    *_false(
        "de",
        "number",
        "Der Lithiumpreis ist von 71.000 USD auf 14.250 USD je Tonne gefallen [lithium]. Experten erwarten 11.000 USD.",
        "Die Reserven von 1,9 Mio. Tonnen reichen bei dieser Förderung von 48.700 Tonnen rund 59 Jahre [kestrel].",
    ),
    *_false(
        "de",
        "name",
        "- **Ghana:** groß [ghana]\n- **Nigeria:** größer",
        "Der Preis fiel, weil Albemarle Corporation ausbaute [lithium].",
    ),
    # ---- Of another field
    *_true(
        "en",
        "NVIDIA's revenue more than doubled year over year, from $27.0 billion in FY2023 to $60.9 billion in FY2024 (+126%) "
        "[nvidia].",
        "NVIDIA's FY2024 revenue of $60.9B is 2.26x the $27.0B of FY2023 [nvidia].",
        "Data center revenue reached $18.4 billion in Q4 FY2024, while the gross margin stood at 75% [nvidia].",
        "Revenue per employee is roughly $2.06 million ($60.9 billion / 29,600) [nvidia].",
        "TSMC holds 61% of the foundry market; everyone else shares the remaining 39% [tsmc].",
        "Capex guidance for 2024 is $28–32 billion, i.e. 40–46% of the 2023 revenue of $69.3 billion [tsmc].",
        "Two thirds of TSMC's revenue (67%) comes from advanced nodes [tsmc].",
        "ASML sold 53 EUV systems in 2023, 13 more than the 40 in 2022, an increase of about a third [asml].",
        "R&D spending of €4.0 billion is 14.5% of net sales (€27.6 billion) [asml].",
        "The export controls of October 2023 hit the A800 and H800, two products for China [controls].",
        "On 17 October 2023 the US Department of Commerce tightened its export controls on China [controls].",
        "Since Oct. 17, 2023, US rules restrict exports of advanced AI chips to China (A800, H800) [controls].",
        "## Value chain\n\n1. **ASML** sells EUV systems (53 in 2023) [asml].\n2. **TSMC** has a 61% share "
        "[tsmc].\n3. **NVIDIA** "
        "had FY2024 revenue of $60.9 billion [nvidia].\n\nAll three depend on one another.",
        "NVIDIA (FY2024: $60.9bn) [nvidia] is still smaller than TSMC (2023: $69.3bn) [tsmc] by revenue, by 12%.",
        "NVIDIA, headquartered in Santa Clara, is led by CEO Jensen Huang [nvidia].",
        "TSMC's utilization is above 90%, so there is little slack (< 10%) [tsmc].",
        "With 13 fabs, and capex of 28 to 32 billion dollars, TSMC spends more than $2 billion per fab [tsmc].",
    ),
    *_true(
        "de",
        "Der Umsatz von NVIDIA stieg im Geschäftsjahr 2024 auf 60,9 Mrd. US-Dollar, nach 27,0 Mrd. im Vorjahr "
        "– ein Plus von "
        "126 % [nvidia].",
        "TSMC hält 61 Prozent Marktanteil, die übrigen 39 Prozent verteilen sich auf den Rest [tsmc].",
        "ASML verkaufte 2023 53 EUV-Systeme und damit ein Drittel mehr als 2022 (40) [asml].",
        "Der Auftragsbestand von 39 Mrd. € entspricht dem 1,4-Fachen des Jahresumsatzes von 27,6 Mrd. € [asml].",
    ),
    *_false(
        "en",
        "growth",
        "NVIDIA's revenue tripled, from $27.0 billion in FY2023 to $60.9 billion in FY2024 [nvidia].",
    ),
    *_false("en", "date", "NVIDIA's revenue was $60.9 billion in FY2025 [nvidia]."),
    *_false(
        "en",
        "share",
        "TSMC holds 61% of the foundry market; everyone else shares the remaining 49% [tsmc].",
    ),
    *_false(
        "en",
        "name",
        "TSMC's rival Samsung Foundry is far behind [tsmc].",
        "The H20 is not affected [controls].",
    ),
    *_false("en", "number", "ASML sold 53 EUV systems in 2023, after 45 in 2022 [asml]."),
    *_false("en", "scale", "ASML's backlog is €39 million [asml]."),
    *_false("de", "number", "NVIDIA beschäftigt 26.900 Menschen [nvidia]."),
    *_false(
        "de",
        "difference",
        "ASML verkaufte 2023 53 EUV-Systeme, 23 mehr als die 40 im Jahr 2022 [asml].",
    ),
    # ---- Titles and summaries
    ConclusionCase(
        "en",
        "Ghana has 33.8 million people [ghana], Togo 8.65 million [togo]. Ghana is 3.9 times as large.",
        name="Ghana is 3.9 times as large as Togo",
        summary="Ghana has almost four times as many people as Togo.",
    ),
    ConclusionCase(
        "en",
        "Orran's revenue rose by 15 %, from €812 million to €934.5 million [orran].",
        name="Orran Grows by 15 % in 2023",
        summary="Revenue of Orran rose by 15 %.",
    ),
    ConclusionCase(
        "de",
        "Der Umsatz stieg um 15 %, von 812 auf 934,5 Millionen Euro [orran].",
        name="Orran wächst um 15 %",
        summary="Orran ist um 15 % gewachsen.",
    ),
    ConclusionCase(
        "en",
        "Orran's revenue rose by 15 %, from €812 million to €934.5 million [orran].",
        "growth",
        name="Orran grows by 25 %",
        summary="Revenue of Orran rose by 15 %.",
    ),
    ConclusionCase(
        "en",
        "Ghana is large [ghana].",
        "number",
        name="Ghana is large",
        summary="Ghana has 38 million people.",
    ),
    ConclusionCase(
        "en",
        "Ghana is large [ghana].",
        "name",
        name="Ghana overtakes Nigeria",
        summary="Ghana is large.",
    ),
]
