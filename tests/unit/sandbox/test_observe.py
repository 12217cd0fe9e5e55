"""The observer's plan."""

import pytest

from tests.support.sandbox.asking import EMPTY_GRAPH, plan

MISSION = "Watch energy security and exports of West African economies"
GHANA, TOGO, INDIA = (f"00000000-0000-4000-8000-00000000000{digit}" for digit in (1, 2, 3))
SUMMARY = "a West African economy with energy security"
TWO_COUNTRIES = f"""\
As of 2026-11-21T22:30:00Z: 2 nodes, 0 edges, 1 node types, 0 edge types, 0 analyses, 0 advice.
## Newest nodes
- [node:{GHANA}] Country "Ghana" {{"summary": "Ghana: {SUMMARY}", "Exports 2023": "$25 billion"}}
- [node:{TOGO}] Country "Togo" {{"summary": "Togo: {SUMMARY}", "Exports 2023": "$2 billion"}}
"""


def test_an_empty_graph_is_asked_about_and_gives_no_insights() -> None:
    made = plan(MISSION, EMPTY_GRAPH)
    assert 2 <= len(made["queries"]) <= 3
    assert made["insights"] == []
    told = " ".join(query["objective"] for query in made["queries"])
    assert "exports of West African economies" in told
    assert "energy security of West African economies" in told
    for query in made["queries"]:
        assert MISSION in query["reasoning"]
        assert query["searchHints"]


def test_a_mission_of_one_term_is_asked_about_from_several_sides() -> None:
    made = plan("Find short-term opportunities among semiconductor suppliers", EMPTY_GRAPH)
    assert len({query["objective"] for query in made["queries"]}) >= 2
    assert all("semiconductor suppliers" in query["objective"] for query in made["queries"])


def test_another_mission_gives_another_plan() -> None:
    assert plan("Watch wheat prices in Argentina", EMPTY_GRAPH) != plan(MISSION, EMPTY_GRAPH)


def test_figures_of_one_kind_are_an_insight_with_the_nodes_own_ids() -> None:
    (insight,) = plan(MISSION, TWO_COUNTRIES)["insights"]
    assert insight["relevantNodeIds"] == [GHANA, TOGO]
    assert "“Exports”" in insight["observation"]
    assert "$25 billion" in insight["observation"]


def test_what_an_analysis_covers_is_no_insight() -> None:
    analysis = f'## Analyses\n- [node:{INDIA}] pattern "Exports: Ghana and Togo compared": Ghana exports more than Togo.'
    assert plan(MISSION, f"{TWO_COUNTRIES}{analysis}")["insights"] == []


def test_nothing_is_lacking_and_nothing_is_planned() -> None:
    context = TWO_COUNTRIES.replace(
        '"Exports 2023": "$2 billion"', '"Imports": "none", "quote": "exports"'
    )
    context += "## Recently asked\n- iteration 1: Find out who else states a figure for “Exports”."
    assert plan(MISSION, context) == {"queries": [], "insights": []}


def test_a_subject_that_says_nothing_of_a_topic_is_asked_about() -> None:
    context = TWO_COUNTRIES.replace(
        "Togo: a West African economy with energy security", "Togo: a West African economy"
    )
    (query,) = plan(MISSION, context)["queries"]
    assert query["objective"] == "Find out about energy security of Togo."
    assert query["searchHints"] == ["Togo energy security"]


def test_nothing_is_asked_twice() -> None:
    asked = plan(MISSION, EMPTY_GRAPH)["queries"]
    lines = "\n".join(f"- iteration 1: {query['objective']}" for query in asked)
    again = plan(MISSION, f"{EMPTY_GRAPH}\n## Recently asked\n{lines}")["queries"]
    assert not {query["objective"] for query in asked} & {query["objective"] for query in again}


def test_data_that_was_missing_comes_first() -> None:
    context = (
        f"{TWO_COUNTRIES}## Open investigation requests\n"
        f"- [request:{GHANA}] a figure for “Coal, exports” of Togo (lacking since iteration 3)\n"
    )
    query = plan(MISSION, context)["queries"][0]
    assert query["objective"] == "Find a figure for “Coal, exports” of Togo."
    assert query["searchHints"] == ["Coal exports Togo"]
    assert query["answers"] == [GHANA]


def test_a_name_that_a_quote_speaks_of_is_asked_about() -> None:
    context = TWO_COUNTRIES.replace(
        '"summary": "Togo',
        '"quote": "Exports of West African economies pass through Tema.", "summary": "Togo',
    )
    objectives = [query["objective"] for query in plan(MISSION, context)["queries"]]
    assert any("how Tema bears on" in objective for objective in objectives)


def test_stale_regions_are_looked_at_again() -> None:
    context = (
        f"{TWO_COUNTRIES}## Stale regions\n"
        f'- 12 Country nodes, last touched 3 weeks ago, for instance [node:{GHANA}] "Ghana"\n'
    )
    objectives = [query["objective"] for query in plan(MISSION, context)["queries"]]
    assert "Find what is new about Ghana." in objectives


def test_edges_to_one_target_are_an_insight() -> None:
    context = (
        "As of 2026-11-21T22:30:00Z: 3 nodes, 2 edges, 1 node types, 1 edge types, 0 analyses, 0 advice.\n"
        "## Newest nodes\n"
        f'- [node:{GHANA}] Country "Ghana" {{"summary": "a"}}\n'
        f'- [node:{TOGO}] Country "Togo" {{"summary": "b"}}\n'
        f'- [node:{INDIA}] Country "India \\"Bharat\\"" {{"summary": "c"}}\n'
        "## Newest edges\n"
        f'- [edge:{GHANA}] "Ghana" -exports_partners-> "India \\"Bharat\\""\n'
        f'- [edge:{TOGO}] "Togo" -exports_partners-> "India \\"Bharat\\""\n'
    )
    (insight,) = plan(MISSION, context)["insights"]
    assert insight["relevantNodeIds"] == [INDIA, GHANA, TOGO]
    assert 'India "Bharat"' in insight["observation"]


def objectives(mission: str, context: str = EMPTY_GRAPH) -> list[str]:
    return [query["objective"] for query in plan(mission, context)["queries"]]


def after_asking(mission: str) -> str:
    asked = "\n".join(f"- iteration 1: {line}" for line in objectives(mission))
    return f"{EMPTY_GRAPH}\n## Recently asked\n{asked}"


@pytest.mark.parametrize(
    ("mission", "asked"),
    [
        (
            "Watch copper mining in Zambia and Chile",
            [
                "Find out what is reported about copper mining in Zambia.",
                "Find out what is reported about copper mining in Chile.",
            ],
        ),
        (
            "Zambia and Chile",
            [
                "Find out what is reported about Zambia.",
                "Find out what is reported about Chile.",
                "Find out what connects Zambia and Chile.",
            ],
        ),
        (
            "lithium",
            [
                "Find out what is reported about lithium.",
                "Find out which companies and countries matter most for lithium.",
                "Find figures on lithium: size, growth and prices.",
            ],
        ),
        (
            "Find short-term opportunities among chip makers",
            [
                "Find out what is reported about chip makers.",
                "Find out which chip makers lead, and who their partners are.",
                "Find figures on chip makers: size, growth and prices.",
            ],
        ),
        (
            "the role of the World Bank in Bangladesh",
            [
                "Find out what is reported about the World Bank in Bangladesh.",
                "Find out who the main partners of the World Bank are.",
                "Find figures on the World Bank in Bangladesh: size, growth and prices.",
            ],
        ),
        ("find opportunities", ["Find out what is reported on “find opportunities”."]),
    ],
)
def test_objectives_read_like_english_and_ask_one_thing_each(
    mission: str, asked: list[str]
) -> None:
    assert objectives(mission) == asked


def test_hints_leave_out_articles() -> None:
    made = plan("the role of the World Bank in Bangladesh", EMPTY_GRAPH)
    assert made["queries"][0]["searchHints"] == ["World Bank Bangladesh"]


def test_where_nothing_was_found_the_words_are_asked_alone_and_then_nothing() -> None:
    mission = "Watch quantum computing"
    context = after_asking(mission)
    alone = objectives(mission, context)
    assert alone == [
        "Find out what there is on “quantum” alone.",
        "Find out what there is on “computing” alone.",
    ]
    asked = "\n".join(f"- iteration 2: {line}" for line in alone)
    assert objectives(mission, f"{context}\n{asked}") == []


def test_a_figure_that_one_node_states_alone_is_asked_of_others() -> None:
    context = TWO_COUNTRIES.replace(', "Exports 2023": "$2 billion"', "")
    query = plan(MISSION, context)["queries"][-1]
    assert query["objective"] == "Find out who else states a figure for “Exports”."
    assert query["searchHints"] == ["Exports"]


def test_common_nouns_are_asked_about_only_where_the_mission_names_them() -> None:
    context = TWO_COUNTRIES + (
        f'- [node:{INDIA}] Commodity "foodstuffs" {{"summary": "Listed.", "quote": "exports: foodstuffs"}}\n'
        f'## Newest edges\n- [edge:{INDIA}] "Ghana" -exports-> "foodstuffs"\n'
    )
    assert objectives(MISSION, context) == []
    assert objectives(MISSION, context.replace('"foodstuffs"', '"Tema Foods"')) == [
        "Find out how Tema Foods bears on exports."
    ]


def test_what_the_context_shows_comes_before_what_must_be_looked_up() -> None:
    context = TWO_COUNTRIES + "".join(
        f'- [edge:{GHANA[:-1]}{digit}] "Ghana" -borders-> "Togo"\n' for digit in range(3, 7)
    )
    first, *others = plan(MISSION, context)["insights"]
    assert "“Exports”" in first["observation"]
    assert [one["observation"] for one in others] == [
        "No analysis compares Ghana and Togo, the best connected nodes of the type Country, on energy security."
    ]
