"""The observer's plan."""

import pytest

from tests.support.sandbox.requests import EMPTY_GRAPH, plan

MISSION = "Watch energy security and exports of West African economies"
GHANA, TOGO, INDIA = (f"00000000-0000-4000-8000-00000000000{digit}" for digit in (1, 2, 3))
SUMMARY = "a West African economy with energy security"
TWO_COUNTRIES = f"""\
As of 2026-11-21T22:30:00Z: 2 nodes, 0 edges, 1 node types, 0 edge types, 0 analyses, 0 advice.
## Newest nodes
- [node:{GHANA}] Country "Ghana" {{"summary": "Ghana: {SUMMARY}", "Exports 2023": "$25 billion"}}
- [node:{TOGO}] Country "Togo" {{"summary": "Togo: {SUMMARY}", "Exports 2023": "$2 billion"}}
"""


def test_an_empty_graph_gives_queries_and_no_insights() -> None:
    result = plan(MISSION, EMPTY_GRAPH)
    assert 2 <= len(result["queries"]) <= 3
    assert result["insights"] == []
    text = " ".join(query["objective"] for query in result["queries"])
    assert "exports of West African economies" in text
    assert "the energy security of West African economies" in text
    for query in result["queries"]:
        assert MISSION in query["reasoning"]
        assert query["searchHints"]


def test_a_mission_of_one_term_gives_several_queries() -> None:
    result = plan("Find short-term opportunities among semiconductor suppliers", EMPTY_GRAPH)
    assert len({query["objective"] for query in result["queries"]}) >= 2
    assert all("semiconductor suppliers" in query["objective"] for query in result["queries"])


def test_another_mission_gives_another_plan() -> None:
    assert plan("Watch wheat prices in Argentina", EMPTY_GRAPH) != plan(MISSION, EMPTY_GRAPH)


def test_comparable_figures_give_an_insight_with_the_node_ids() -> None:
    (insight,) = plan(MISSION, TWO_COUNTRIES)["insights"]
    assert insight["relevantNodeIds"] == [GHANA, TOGO]
    assert "“Exports”" in insight["observation"]
    assert "$25 billion" in insight["observation"]


def test_an_existing_analysis_gives_no_insight() -> None:
    analysis = f'## Analyses\n- [node:{INDIA}] pattern "Exports: Ghana and Togo compared": Ghana exports more than Togo.'
    assert plan(MISSION, f"{TWO_COUNTRIES}{analysis}")["insights"] == []


def test_nothing_is_planned_if_nothing_is_missing() -> None:
    context = TWO_COUNTRIES.replace(
        '"Exports 2023": "$2 billion"', '"Imports": "none", "quote": "exports"'
    )
    context += "## Recently asked\n- iteration 1: Find comparable figures for “Exports” in other sources.\n"
    context += (
        f'## Analyses\n- [node:{INDIA}] observation "Ghana and Togo": What sources state of them.'
    )
    assert plan(MISSION, context) == {"queries": [], "insights": []}


def test_a_node_without_data_on_a_topic_gives_a_query() -> None:
    context = TWO_COUNTRIES.replace(
        "Togo: a West African economy with energy security", "Togo: a West African economy"
    )
    (query,) = plan(MISSION, context)["queries"]
    assert query["objective"] == "Find out about the energy security of Togo."
    assert query["searchHints"] == ["Togo energy security"]


def test_no_query_is_repeated() -> None:
    queries = plan(MISSION, EMPTY_GRAPH)["queries"]
    lines = "\n".join(f"- iteration 1: {query['objective']}" for query in queries)
    next_queries = plan(MISSION, f"{EMPTY_GRAPH}\n## Recently asked\n{lines}")["queries"]
    assert not {query["objective"] for query in queries} & {
        query["objective"] for query in next_queries
    }


def test_missing_data_comes_first() -> None:
    context = (
        f"{TWO_COUNTRIES}## Open investigation requests\n"
        f"- [request:{GHANA}] the “Coal, exports” figure for Togo (lacking since iteration 3)\n"
    )
    query = plan(MISSION, context)["queries"][0]
    assert query["objective"] == "Find the “Coal, exports” figure for Togo."
    assert query["searchHints"] == ["Coal exports Togo"]
    assert query["answers"] == [GHANA]


def test_a_name_in_a_quote_gives_a_query() -> None:
    context = TWO_COUNTRIES.replace(
        '"summary": "Togo',
        '"quote": "Exports of West African economies pass through Tema.", "summary": "Togo',
    )
    objectives = [query["objective"] for query in plan(MISSION, context)["queries"]]
    assert any("how Tema relates to" in objective for objective in objectives)


def test_stale_regions_give_queries() -> None:
    context = (
        f"{TWO_COUNTRIES}## Stale regions\n"
        f'- 12 Country nodes, last touched 3 weeks ago, for instance [node:{GHANA}] "Ghana"\n'
    )
    objectives = [query["objective"] for query in plan(MISSION, context)["queries"]]
    assert "Find out what is new about Ghana." in objectives


def test_edges_to_the_same_target_give_an_insight() -> None:
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


def list_objectives(mission: str, context: str = EMPTY_GRAPH) -> list[str]:
    return [query["objective"] for query in plan(mission, context)["queries"]]


def context_after_queries(mission: str) -> str:
    lines = "\n".join(f"- iteration 1: {line}" for line in list_objectives(mission))
    return f"{EMPTY_GRAPH}\n## Recently asked\n{lines}"


@pytest.mark.parametrize(
    ("mission", "expected"),
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
        ("find opportunities", ["Find out what is reported about “find opportunities”."]),
    ],
)
def test_each_objective_is_an_english_sentence_on_one_subject(
    mission: str, expected: list[str]
) -> None:
    assert list_objectives(mission) == expected


def test_hints_leave_out_articles() -> None:
    result = plan("the role of the World Bank in Bangladesh", EMPTY_GRAPH)
    assert result["queries"][0]["searchHints"] == ["World Bank Bangladesh"]


def test_a_mission_without_results_is_queried_once_word_by_word() -> None:
    mission = "Watch quantum computing"
    context = context_after_queries(mission)
    word_objectives = list_objectives(mission, context)
    assert word_objectives == [
        "Search for “quantum” alone.",
        "Search for “computing” alone.",
    ]
    lines = "\n".join(f"- iteration 2: {line}" for line in word_objectives)
    assert list_objectives(mission, f"{context}\n{lines}") == []


def test_a_figure_of_only_one_node_gives_a_query_for_others() -> None:
    context = TWO_COUNTRIES.replace(', "Exports 2023": "$2 billion"', "")
    query = plan(MISSION, context)["queries"][-1]
    assert query["objective"] == "Find comparable figures for “Exports” in other sources."
    assert query["searchHints"] == ["Exports"]


def test_common_nouns_give_queries_only_if_the_mission_names_them() -> None:
    context = TWO_COUNTRIES + (
        f'- [node:{INDIA}] Commodity "foodstuffs" {{"summary": "Listed.", "quote": "exports: foodstuffs"}}\n'
        f'## Newest edges\n- [edge:{INDIA}] "Ghana" -exports-> "foodstuffs"\n'
    )
    assert list_objectives(MISSION, context) == []
    assert list_objectives(MISSION, context.replace('"foodstuffs"', '"Tema Foods"')) == [
        "Find out how Tema Foods relates to exports."
    ]


def test_insights_from_the_context_come_before_those_that_need_lookups() -> None:
    context = TWO_COUNTRIES + "".join(
        f'- [edge:{GHANA[:-1]}{digit}] "Ghana" -borders-> "Togo"\n' for digit in range(3, 7)
    )
    first, *others = plan(MISSION, context)["insights"]
    assert "“Exports”" in first["observation"]
    assert [insight["observation"] for insight in others] == [
        "No analysis compares Ghana and Togo, the best-connected nodes of type Country, on energy security."
    ]


def texts(*described: str, edges: str = "") -> str:
    """A graph of topics with these descriptions, named A, B and so on."""
    nodes = "\n".join(
        f'- [node:00000000-0000-4000-8000-00000000000{place}] Topic "{"ABCDE"[place]}" {{"summary": "{text}"}}'
        for place, text in enumerate(described)
    )
    head = f"As of 2026-11-21T22:30:00Z: {len(described)} nodes, 1 edges, 1 node types, 1 edge types, 0 analyses, 0 advice."
    return f"{head}\n## Newest nodes\n{nodes}\n## Newest edges\n{edges}"


def observations(mission: str, context: str) -> list[str]:
    return [insight["observation"] for insight in plan(mission, context)["insights"]]


def test_statements_are_compared_where_there_are_no_figures() -> None:
    graph = texts("A keeps packages.", "B sends packages.", "C drops packages.")
    assert observations("Watch packages of Harborlight", graph) == [
        "The sources mention “packages” in statements about A, B and C."
    ]


def test_a_single_statement_counts_where_there_is_nothing_else() -> None:
    graph = texts("A keeps packages.", "B is blue.")
    assert observations("Watch packages of Harborlight", graph) == [
        "The sources mention “packages” in statements about A."
    ]


def test_a_statement_about_the_topic_itself_is_no_statement_about_another_node() -> None:
    graph = texts("A keeps packages.", "B is blue.").replace('Topic "A"', 'Topic "Packages"')
    assert observations("Watch packages of Harborlight", graph) == [
        "The sources mention “packages”."
    ]


def test_what_has_nothing_to_do_with_the_mission_gives_no_insight() -> None:
    edge = f'- [edge:{GHANA}] "A" -mentioned_with-> "B"'
    graph = texts("A is red.", "B is blue.", "C is green.", edges=edge)
    assert observations("Watch packages of Harborlight", graph) == []


def test_two_insights_share_a_node_where_they_can() -> None:
    edges = f'- [edge:{GHANA}] "A" -mentioned_with-> "B"\n- [edge:{TOGO}] "A" -mentioned_with-> "C"'
    graph = texts("A keeps packages.", "B sends packages.", "C drops packages.", edges=edges)
    first, second = plan("Watch packages of Harborlight", graph)["insights"]
    assert second["observation"] == "The sources mention A together with B and C."
    assert set(first["relevantNodeIds"]) & set(second["relevantNodeIds"])


def test_an_analyzed_statement_is_not_analyzed_again() -> None:
    graph = texts("A keeps packages.", "B sends packages.", "C drops packages.")
    graph += (
        f'\n## Analyses\n- [node:{INDIA}] observation "Packages": The sources mention “packages” in'
        " statements about A and B."
    )
    assert observations("Watch packages of Harborlight", graph) == []
