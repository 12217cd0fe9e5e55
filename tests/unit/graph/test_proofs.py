"""Which sentences prove what a conclusion states, and which do not."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID, uuid5

from shared.enums import Entailment
from shared.graph.conclusions.citations import Kind
from shared.graph.conclusions.figures import CitedElement
from shared.graph.conclusions.proofs import ProofRow, ProvableElement, Quote, find_proof

SPACE: Final = UUID(int=7)
LEARNED: Final = datetime(2026, 1, 1, tzinfo=UTC)


def key(name: str) -> UUID:
    return uuid5(SPACE, name)


def quote(number: int, as_of: str | None = None, **claims: Any) -> Quote:
    """The quote at that place of a page, which claims these values."""
    return Quote(claims, as_of, None, None, LEARNED, key("page"), number, number + 1)


def node(name: str, *quotes: Quote, cited_by: str | None = None) -> ProvableElement:
    return element(name, Kind.NODE, "Country", quotes, (), cited_by)


def edge(one: str, other: str, *quotes: Quote) -> ProvableElement:
    ends = ((key(one), one), (key(other), other))
    return element(f"{one} → {other}", Kind.EDGE, "borders", quotes, ends, None)


def element(
    name: str,
    kind: Kind,
    type_name: str,
    quotes: Sequence[Quote],
    ends: Sequence[tuple[UUID, str]],
    cited_by: str | None,
) -> ProvableElement:
    names = tuple(end for _, end in ends) or (name,)
    values = tuple(
        {item[0] + str(item[1]): item for each in quotes for item in each.claims.items()}.values()
    )
    cited = CitedElement(type_name, names, values)
    return ProvableElement(
        key(name), kind, name, cited, quotes, ends, frozenset({key(cited_by or name)})
    )


def cite(name: str, kind: str = "node") -> str:
    return f"[{kind}:{key(name)}]"


def prove(content: str, *elements: ProvableElement, **texts: str) -> list[ProofRow]:
    properties = {"summary": "So it is.", "content": content, **texts}
    return find_proof("A title", properties, elements)


def shown(rows: Sequence[ProofRow]) -> list[tuple[str, str | None, int]]:
    """Name, property and place of the quote."""
    return [(row.name, row.property, row.first_byte) for row in rows]


def test_a_figure_is_proven_by_its_sentence_and_by_no_other_of_the_node() -> None:
    ghana = node(
        "Ghana",
        quote(1, population=35_000_000),
        quote(2, capital="Accra"),
        quote(3, summary="A state in the west of the continent."),
        quote(4, population=33_000_000),
        quote(5),
    )
    rows = prove(f"Ghana has 35 million people {cite('Ghana')}.", ghana)
    assert shown(rows) == [("Ghana", "population", 1)]
    assert (rows[0].stated, rows[0].value, rows[0].sentence) == ("35 million", 35_000_000, 3)
    rows = prove(f"Ghana grew from 33 million to 35 million people {cite('Ghana')}.", ghana)
    assert shown(rows) == [("Ghana", "population", 4), ("Ghana", "population", 1)]


def test_a_figure_is_of_the_node_that_its_sentence_cites_or_names() -> None:
    ghana, togo = (
        node("Ghana", quote(1, people=9_000_000)),
        node("Togo", quote(2, people=9_000_000)),
    )
    rows = prove(f"It has 9 million people {cite('Togo')}.", ghana, togo)
    assert shown(rows) == [("Togo", "people", 2)]
    rows = prove(f"Togo has 9 million people. {cite('Ghana')} {cite('Togo')}", ghana, togo)
    assert shown(rows)[0] == ("Togo", "people", 2)


def test_a_figure_is_of_the_property_that_its_sentence_speaks_of() -> None:
    mine = node("Mine", quote(1, staff=400), quote(2, output_tonnes=400))
    assert shown(prove(f"Its staff is 400 {cite('Mine')}.", mine)) == [("Mine", "staff", 1)]
    assert shown(prove(f"Its output is 400 t {cite('Mine')}.", mine)) == [
        ("Mine", "output_tonnes", 2)
    ]


def test_a_small_number_is_stated_only_where_its_property_is_named() -> None:
    mine = node("Mine", quote(1, shafts=3), quote(2))
    assert shown(prove(f"For three reasons, the Mine {cite('Mine')} closes.", mine)) == [
        ("Mine", None, 2)
    ]
    assert shown(prove(f"The Mine has 3 shafts {cite('Mine')}.", mine)) == [("Mine", "shafts", 1)]


def test_a_name_or_a_status_in_a_value_is_proven() -> None:
    mine = node(
        "Mine",
        quote(1, owner="Orran Metals"),
        quote(2, status="on strike"),
        quote(3, region="North"),
    )
    rows = prove(f"Orran Metals has the Mine {cite('Mine')}, which is on strike.", mine)
    assert shown(rows) == [("Mine", "owner", 1), ("Mine", "status", 2)]
    assert [row.stated for row in rows] == ["Orran Metals", "on strike"]


def test_a_unit_in_the_same_sentence_is_no_row_of_its_own() -> None:
    mine = node("Mine", quote(1, output=400, unit="metric tonnes"))
    assert shown(prove(f"It has 400 metric tonnes {cite('Mine')}.", mine)) == [
        ("Mine", "output", 1)
    ]


def test_a_relation_is_proven_if_both_ends_are_named_or_it_is_cited() -> None:
    border = edge("Ghana", "Togo", quote(1))
    assert shown(prove("Ghana and Togo are near.", border)) == [("Ghana → Togo", None, 1)]
    assert prove("Ghana is near.", border) == []
    rows = prove(f"They are near {cite('Ghana → Togo', 'edge')}.", border)
    assert shown(rows) == [("Ghana → Togo", None, 1)]


def test_a_node_of_which_nothing_else_is_stated_has_one_sentence() -> None:
    ghana = node("Ghana", quote(1, capital="Accra"), quote(2), quote(3))
    assert shown(prove(f"Ghana grows {cite('Ghana')}.", ghana)) == [("Ghana", None, 2)]
    # One that an analysis cites is proven where the advice names it.
    below = node("Ghana", quote(2), cited_by="Growth")
    assert shown(prove(f"Ghana grows {cite('Growth')}.", below)) == [("Ghana", None, 2)]
    assert prove(f"It grows {cite('Growth')}.", below) == []


def test_a_node_is_named_by_the_sentence_of_its_relation() -> None:
    border, ghana, mali = (
        edge("Ghana", "Togo", quote(1)),
        node("Ghana", quote(2)),
        node("Mali", quote(3)),
    )
    rows = prove("Ghana and Togo are near, and so is Mali.", border, ghana, mali)
    assert shown(rows) == [("Ghana → Togo", None, 1), ("Mali", None, 3)]
    # One that is cited itself says something of its own.
    rows = prove(f"Ghana grows {cite('Ghana')} beside Togo.", border, ghana, mali)
    assert shown(rows) == [("Ghana → Togo", None, 1), ("Ghana", None, 2)]


def test_a_cited_node_is_proven_by_the_sentence_that_its_words_speak_of() -> None:
    mine = node("Mine", quote(1), quote(2, tonnes_bought=41_000), quote(3, owner="Orran"))
    assert shown(prove(f"It bought more {cite('Mine')}.", mine)) == [("Mine", None, 2)]
    assert shown(prove(f"It rests {cite('Mine')}.", mine)) == [("Mine", None, 1)]


def test_a_property_proves_a_figure_rather_than_a_description() -> None:
    mine = node(
        "Mine",
        quote(1, summary="A mine with an output of 400 tonnes."),
        quote(2, yield_2025="400 tonnes"),
    )
    assert shown(prove(f"It has 400 tonnes {cite('Mine')}.", mine)) == [("Mine", "yield_2025", 2)]


def test_a_date_is_proven_unless_a_sentence_of_the_proof_has_it() -> None:
    strike = node(
        "Strike", quote(1, "2026-03-05T00:00:00+00:00", workers=400), quote(2, begins="2026-04-01")
    )
    text = f"On 5 March 2026, 400 workers went on Strike {cite('Strike')}."
    assert shown(prove(text, strike)) == [("Strike", "workers", 1)]
    text = f"The Strike begins on 1 April 2026 {cite('Strike')}."
    assert shown(prove(text, strike))[-1] == ("Strike", "begins", 2)


def test_thresholds_of_a_forecast_are_not_proven() -> None:
    ghana = node("Ghana", quote(1, population=35_000_000))
    rows = prove("It grows.", ghana, invalidation="Ghana has fewer than 35 million people.")
    assert rows == []
    text = f"Ghana has 35 million people {cite('Ghana')}."
    assert len(prove(text, ghana, invalidation="Ghana has 35 million people.")) == 1


def test_retracted_and_contradicted_sentences_prove_nothing_and_read_ones_come_first() -> None:
    first = quote(1, people=9_000_000)
    values: dict[str, Any] = {**vars(first), "first_byte": 2, "end_byte": 3}
    retracted = Quote(**{**values, "is_retracted": True})
    contradicted = Quote(
        **{**values, "verdicts": dict.fromkeys(["people", ""], Entailment.CONTRADICTED)}
    )
    read = {"people": Entailment.SUPPORTED, "area": Entailment.NOT_STATED}
    supported = Quote(**{**values, "first_byte": 3, "end_byte": 4, "verdicts": read})
    text = f"It has 9 million people {cite('Togo')}."
    assert prove(text, node("Togo", retracted, contradicted)) == []
    assert shown(prove(text, node("Togo", retracted, first))) == [("Togo", "people", 1)]
    assert shown(prove(text, node("Togo", first, supported))) == [("Togo", "people", 3)]
    refused = Quote(**{**values, "verdicts": {"people": Entailment.NOT_STATED}})
    assert shown(prove(text, node("Togo", refused))) == [("Togo", None, 2)], "it still names it"


def test_what_is_computed_has_its_operands_as_proof() -> None:
    mine = node("Mine", quote(1, output_2025=400), quote(2, output_2026=500))
    rows = prove(f"From 400 to 500, by 25 %, the output grew {cite('Mine')}.", mine)
    assert shown(rows) == [("Mine", "output_2025", 1), ("Mine", "output_2026", 2)]
