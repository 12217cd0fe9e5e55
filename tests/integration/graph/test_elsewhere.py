"""The reader of a conclusion is shown other nodes that mention a figure which it states."""

from uuid import UUID

import pytest

from shared.enums import ANALYSIS_TYPE
from shared.graph.conclusions.readings import ConclusionReadings, draft_of
from shared.graph.provenance.elsewhere import figures_in
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.retraction import retractions
from shared.graph.retraction.propagation import propagate_retractions
from shared.tools import Json
from tests.support.graph.agent_graph import AgentGraph

RANKING = "Ghana has received 81.4 points."
CORRECTION = "Togo says that the score of Ghana is 80.4 points, not 81.4."
CORRECTED_AT = "https://corrections.example/"


@pytest.fixture
async def ranked(agent_graph: AgentGraph) -> AgentGraph:
    await say(agent_graph, "https://ranking.example/", "2023-09-17", RANKING, "Ghana")
    return agent_graph


async def say(
    graph: AgentGraph, url: str, published: str, content: str, name: str, type_name: str = "Country"
) -> UUID:
    page: Json = {"url": url, "title": name, "content": content, "published_date": published}
    await graph.store_search_results({"results": [page]})
    summary = {"summary": content}
    return (await graph.add_node(name, summary, [EvidenceInput(url, content)], type_name)).id


async def shown(graph: AgentGraph, summary: str, cited: str) -> list[str]:
    """The claims without a verdict and a quote of their own, for a sentence with its citation."""
    draft = draft_of(
        graph.scope, ANALYSIS_TYPE, "Lead", summary=summary, content=f"{summary} [node:{cited}]"
    )
    readings = ConclusionReadings(graph.scope)
    readings.collect()
    readings.add(draft)
    async with graph.database.transaction() as session:
        material = await readings.load_material(session)
    assert material is not None
    places = {number for each in material.sentences for number in each.claims}
    assert places == set(range(1, len(material.claims) + 1)), "each is one of a sentence"
    return [each.text for each in material.claims if not (each.passage or each.evidence)]


async def ghana(graph: AgentGraph) -> str:
    return str(await say(graph, "https://ranking.example/", "2023-09-17", RANKING, "Ghana"))


async def test_the_correction_of_a_figure_is_shown_with_its_quote(ranked: AgentGraph) -> None:
    cited = await ghana(ranked)
    assert await shown(ranked, "Ghana has 81.4 points.", cited) == []
    await say(ranked, CORRECTED_AT, "2023-09-29", CORRECTION, "Togo")
    line = f'Country "Togo" (2023-09-29): »{CORRECTION}«'
    assert await shown(ranked, "Ghana has 81.4 points.", cited) == [line]
    # What states none of its figures needs none of them.
    assert await shown(ranked, "Ghana leads.", cited) == []


async def test_pages_that_are_retracted_and_other_types_are_not_shown(ranked: AgentGraph) -> None:
    cited = await ghana(ranked)
    await ranked.node_type("Region")
    await say(ranked, "https://region.example/", "2023-09-29", CORRECTION, "Togo", "Region")
    assert await shown(ranked, "Ghana has 81.4 points.", cited) == []
    await say(ranked, CORRECTED_AT, "2023-09-29", CORRECTION, "Togo")
    async with ranked.database.transaction() as session:
        await retractions.retract_source(session, ranked.scope, CORRECTED_AT, "made up")
    await propagate_retractions(ranked.database)
    assert await shown(ranked, "Ghana has 81.4 points.", cited) == []


async def test_few_nodes_are_shown_the_last_updated_ones(ranked: AgentGraph) -> None:
    cited = await ghana(ranked)
    for number, name in enumerate(("Togo", "Benin", "Mali"), 1):
        text = f"{name} has 81.4 points."
        await say(ranked, f"https://{name.lower()}.example/", f"2023-10-0{number}", text, name)
    found = await shown(ranked, "Ghana has 81.4 points.", cited)
    assert [line.split('"')[1] for line in found] == ["Mali", "Benin"]


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        ("81.4 points, 2.31 million and 1,940 members", {"81.4", "2.31", "1940"}),
        ("In 2026, 12 of 99 on 5 May", set()),
        ("1.5 and 0.5", {"1.5", "0.5"}),
        ("20265 of 2100", {"20265", "2100"}),
    ],
)
def test_figures_are_those_that_few_texts_have(text: str, figures: set[str]) -> None:
    assert figures_in(text) == figures
