"""The observer's plan."""

from tests.unit.sandbox.asking import EMPTY_GRAPH, plan

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
    context = f"{TWO_COUNTRIES}## Data that was missing\n- a figure for “Coal, exports” of Togo\n"
    query = plan(MISSION, context)["queries"][0]
    assert query["objective"] == "Find a figure for “Coal, exports” of Togo."
    assert query["searchHints"] == ["Coal exports Togo"]


def test_a_name_that_a_quote_speaks_of_is_asked_about() -> None:
    context = TWO_COUNTRIES.replace(
        '"summary": "Togo',
        '"quote": "Exports of West African economies pass through Tema.", "summary": "Togo',
    )
    objectives = [query["objective"] for query in plan(MISSION, context)["queries"]]
    assert any("what Tema is" in objective for objective in objectives)


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
