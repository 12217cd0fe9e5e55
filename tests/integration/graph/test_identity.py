"""Which node a written thing is: questions to the model, nodes of one name, and candidates that the index finds."""

from collections import Counter
from random import Random
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select

from shared.database.tables import GraphName, GraphNode
from shared.graph import tools, types
from shared.graph.entity_resolution import aliases
from shared.graph.entity_resolution.aliases import NameRequest
from shared.graph.entity_resolution.normalization import normalize
from shared.graph.entity_resolution.relations import DUPLICATE_THRESHOLD
from shared.graph.tools import references
from shared.tools import Json, LeftOutError, ToolRefusalError
from tests.support.graph.agent_graph import AgentGraph
from tests.support.identity_pairs import Pair, load_pairs

SCHEMA: Final = {
    "type": "object",
    "properties": {
        "summary": {"type": "string"},
        "profession": {"type": "string"},
        "birth_date": {"type": "string"},
        "state": {"type": "string"},
        "colour": {"type": "string"},
    },
    "required": ["summary"],
    "additionalProperties": False,
}
SENTENCES: Final = {
    "footballer": "Thomas Müller, born in 1989, is a footballer in Munich.",
    "swimmer": "Thomas Muller is a swimmer; Thomas Müller, another swimmer, was second.",
    "again": "Thomas Müller scored twice; Thomas Müller said so.",
    "springfield": "Springfield is a town in Illinois, and Springfield is a town in Missouri.",
    "smith": "John Smith spoke. John Smith is an economist. John Smith is a goalkeeper.",
    "diamond": "Diamond Shamrock Corp refines oil. Diamond sold shares.",
    "ibm": "International Business Machines is IBM.",
}
URLS: Final = {name: f"https://{name}.example/page" for name in SENTENCES}


@pytest.fixture
async def people(agent_graph: AgentGraph) -> AgentGraph:
    for name in ("Person", "City", "Company"):
        async with agent_graph.database.transaction() as session:
            await types.create_node_type(
                session,
                agent_graph.scope,
                agent_graph.validators,
                name=name,
                description=f"A {name}",
                properties_schema=SCHEMA,
                example_properties={"summary": "One."},
                created_by="test",
            )
    pages = [
        {"url": URLS[name], "title": name, "content": text} for name, text in SENTENCES.items()
    ]
    await agent_graph.store_search_results({"results": pages})
    return agent_graph


async def _add(graph: AgentGraph, name: str, says: str, **fields: Any) -> Json:
    tool = tools.add_graph_node(graph.scope, graph.validators)
    properties = fields.pop("properties", {})
    arguments = tool.arguments.model_validate(
        {
            "type": "Person",
            "name": name,
            "properties": {"summary": "Somebody or something.", **properties},
            "evidence": [{"sourceUrl": URLS[says], "quote": SENTENCES[says]}],
            **fields,
        }
    )
    async with graph.database.transaction() as session:
        return await tool.run(session, arguments)


async def _question(graph: AgentGraph, name: str, says: str, **fields: Any) -> str:
    with pytest.raises(ToolRefusalError, match="call again with sameAs") as error:
        await _add(graph, name, says, **fields)
    return str(error.value)


async def _names(graph: AgentGraph) -> set[str]:
    async with graph.database.transaction() as session:
        return set(await session.scalars(select(GraphNode.name)))


FOOTBALLER: Final[Json] = {"profession": "footballer"}
SWIMMER: Final[Json] = {"profession": "swimmer"}


async def test_a_profession_that_contradicts_is_a_question(people: AgentGraph) -> None:
    first = (await _add(people, "Thomas Müller", "footballer", properties=FOOTBALLER))["nodeId"]
    question = await _question(people, "Thomas Müller", "swimmer", properties=SWIMMER)
    assert f"[node:{first}]" in question
    assert 'its profession is "footballer"' in question
    assert f'distinctFrom: ["{first}"] and a qualifier' in question
    async with people.database.transaction() as session:
        node = await session.get_one(GraphNode, UUID(first))
    assert node.properties["profession"] == "footballer"

    other = await _add(
        people,
        "Thomas Müller",
        "swimmer",
        properties=SWIMMER,
        distinctFrom=[first],
        qualifier="swimmer",
    )
    assert other["created"]
    assert await _names(people) == {"Thomas Müller", "Thomas Müller (swimmer)"}
    assert (await _add(people, "Thomas Müller", "swimmer", properties=SWIMMER))["nodeId"] == other[
        "nodeId"
    ], "what identifies it says which of the two it is"
    assert (await _add(people, "Thomas Müller (swimmer)", "swimmer", properties=SWIMMER))[
        "nodeId"
    ] == other["nodeId"]
    both = await _question(people, "Thomas Müller", "again")
    assert first in both
    assert other["nodeId"] in both


async def test_the_answer_that_it_is_the_same_is_remembered(people: AgentGraph) -> None:
    first = (await _add(people, "Thomas Müller", "footballer", properties=FOOTBALLER))["nodeId"]
    await _question(people, "Thomas Müller", "swimmer", properties=SWIMMER)
    answered = await _add(people, "Thomas Müller", "swimmer", properties=SWIMMER, sameAs=first)
    assert answered["nodeId"] == first
    again = await _add(people, "Thomas Müller", "swimmer", properties=SWIMMER)
    assert again["nodeId"] == first, "both values are known of it now"


async def test_without_a_qualifier_what_identifies_it_becomes_one(people: AgentGraph) -> None:
    illinois = {"state": "Illinois"}
    first = await _add(people, "Springfield", "springfield", type="City", properties=illinois)
    missouri = {"state": "Missouri"}
    await _question(people, "Springfield", "springfield", type="City", properties=missouri)
    distinct = {"distinctFrom": [first["nodeId"]]}
    await _add(people, "Springfield", "springfield", type="City", properties=missouri, **distinct)
    assert await _names(people) == {"Springfield", "Springfield (Missouri)"}


async def test_a_qualifier_is_needed_if_nothing_else_tells_two_apart(people: AgentGraph) -> None:
    first = await _add(people, "Springfield", "springfield", type="City")
    distinct = {"type": "City", "distinctFrom": [first["nodeId"]]}
    with pytest.raises(ToolRefusalError, match="qualifier: another City has the name"):
        await _add(people, "Springfield", "springfield", **distinct)
    other = await _add(people, "Springfield", "springfield", **distinct, qualifier="Ohio")
    assert other["created"]


async def test_common_names_are_a_question_unless_the_page_or_a_fact_says_more(
    people: AgentGraph,
) -> None:
    economist, goalkeeper = {"profession": "economist"}, {"profession": "goalkeeper"}
    first = (await _add(people, "John Smith", "smith", properties=economist))["nodeId"]
    same_page = await _add(people, "John Smith", "smith")
    assert same_page["nodeId"] == first, "one page uses one name for one person"
    assert first in await _question(people, "John Smith", "smith", properties=goalkeeper)


async def test_an_unneeded_qualifier_is_left_out(people: AgentGraph) -> None:
    await _add(people, "Thomas Müller", "footballer", qualifier="footballer")
    assert await _names(people) == {"Thomas Müller"}


async def test_names_that_contain_another_and_initials_are_candidates(people: AgentGraph) -> None:
    long = await _add(people, "Diamond Shamrock Corp", "diamond", type="Company")
    question = await _question(people, "Diamond", "diamond", type="Company")
    assert long["nodeId"] in question
    machines = await _add(people, "International Business Machines", "ibm", type="Company")
    assert machines["nodeId"] in await _question(people, "IBM", "ibm", type="Company")
    same = await _add(people, "IBM", "ibm", type="Company", sameAs=machines["nodeId"])
    assert same["nodeId"] == machines["nodeId"]
    assert (await _add(people, "IBM", "ibm", type="Company"))["nodeId"] == machines["nodeId"]


async def test_same_as_must_be_a_node(people: AgentGraph) -> None:
    with pytest.raises(ToolRefusalError, match="sameAs: no such node"):
        await _add(people, "IBM", "ibm", type="Company", sameAs=str(UUID(int=1)))
    with pytest.raises(ToolRefusalError, match="sameAs: 'it' is not an id"):
        await _add(people, "IBM", "ibm", type="Company", sameAs="it")


PORTS: Final[Json] = {
    "first": "The Bureau counted 231 passengers in Tema in May 2026.",
    "revised": "The figure for Tema port in May 2026 was revised from 231 to 230 passengers.",
    "other": "Tema port had 230 passengers in May 2026.",
    "appeal": "The appeal of Tema Port names two grounds: the traffic forecast, and the role of the old adviser.",
    "court": "The transport ministry will not negotiate, the minister said.",
}


async def _add_label(graph: AgentGraph, name: str, says: str, **properties: Any) -> Json:
    url = f"https://ports.example/{says}"
    page = {"url": url, "title": "Ports", "content": PORTS[says]}
    await graph.store_search_results({"results": [page]})
    tool = tools.add_graph_node(graph.scope, graph.validators)
    arguments = {
        "type": "Measure",
        "name": name,
        "properties": {"summary": PORTS[says], **properties},
        "evidence": [{"sourceUrl": url, "quote": PORTS[says]}],
    }
    async with graph.database.transaction() as session:
        return await tool.run(session, tool.arguments.model_validate(arguments))


async def test_a_label_that_corrects_the_figure_of_another_is_the_same(
    agent_graph: AgentGraph,
) -> None:
    await agent_graph.node_type("Measure")
    known = await _add_label(agent_graph, "Passengers in Tema, May 2026", "first", population=231)
    name = "Passengers in Tema port, May 2026"
    with pytest.raises(ToolRefusalError, match="call again with sameAs"):
        await _add_label(agent_graph, name, "other", population=230)
    again = await _add_label(agent_graph, name, "revised", population=230)
    assert again["nodeId"] == known["nodeId"]


async def test_labels_that_share_a_long_text_are_the_same(agent_graph: AgentGraph) -> None:
    """Constructions of one iteration run side by side and do not see each other's nodes."""
    await agent_graph.node_type("Measure")
    grounds = "the traffic forecast, and the role of the old adviser"
    named = await _add_label(
        agent_graph, "Appeal of Tema Port to the court", "appeal", capital=f"Grounds: {grounds}."
    )
    texts = {"summary": f"The appeal of Tema Port is on two grounds: {grounds}."}
    same = await _add_label(agent_graph, "Appeal of Tema Port on the ranking", "appeal", **texts)
    assert same["nodeId"] == named["nodeId"]
    texts = {"summary": f"There are two grounds: {grounds}."}
    other = await _add_label(agent_graph, "Appeal of Old Adviser on the ranking", "appeal", **texts)
    assert other["created"], "it names another one"


async def test_a_name_with_a_place_that_the_page_does_not_have_is_left_out(
    agent_graph: AgentGraph,
) -> None:
    await agent_graph.node_type("Body")
    url = "https://ports.example/court"
    page = {"url": url, "title": "Ports", "content": PORTS["court"]}
    await agent_graph.store_search_results({"results": [page]})
    tool = tools.add_graph_node(agent_graph.scope, agent_graph.validators)
    arguments = {
        "type": "Body",
        "name": "Transport ministry of Morvenia",
        "properties": {"summary": PORTS["court"]},
        "evidence": [{"sourceUrl": url, "quote": PORTS["court"]}],
    }
    async with agent_graph.database.transaction() as session:
        with pytest.raises(LeftOutError, match="'Morvenia' is not named on the page"):
            await tool.run(session, tool.arguments.model_validate(arguments))
    assert await _names(agent_graph) == set(), "without the place, it could be that of another"


async def test_a_type_says_which_properties_identify(people: AgentGraph) -> None:
    schema: Json = {
        **SCHEMA,
        "properties": {
            **SCHEMA["properties"],  # type: ignore[dict-item]  # a table of the schema
            "colour": {"type": "string", "identifies": "role"},
            "profession": {"type": "string", "identifies": False},
        },
    }
    async with people.database.transaction() as session:
        await types.create_node_type(
            session,
            people.scope,
            people.validators,
            name="Horse",
            description="A horse",
            properties_schema=schema,
            example_properties={"summary": "One."},
            created_by="test",
        )
    brown = {"colour": "brown", "profession": "footballer"}
    first = await _add(people, "Diamond Shamrock", "diamond", type="Horse", properties=brown)
    swimmer = await _add(people, "Diamond Shamrock", "diamond", type="Horse", properties=SWIMMER)
    assert swimmer["nodeId"] == first["nodeId"]
    grey = {"colour": "grey"}
    assert 'its colour is "brown"' in await _question(
        people, "Diamond Shamrock", "diamond", type="Horse", properties=grey
    )


async def test_an_ambiguous_reference_lists_both_with_their_descriptions(
    people: AgentGraph,
) -> None:
    first = (await _add(people, "Thomas Müller", "footballer", properties=FOOTBALLER))["nodeId"]
    other = await _add(
        people,
        "Thomas Müller",
        "swimmer",
        properties={**SWIMMER, "summary": "A swimmer."},
        distinctFrom=[first],
        qualifier="swimmer",
    )
    async with people.database.transaction() as session:
        with pytest.raises(ToolRefusalError, match="2 nodes have this name") as error:
            await references.resolve_node_id(session, people.scope, "Thomas Müller", "sourceId", [])
        assert '"Thomas Müller (swimmer)" (A swimmer.)' in str(error.value)
        assert first in str(error.value)
        qualified = await references.resolve_node_id(
            session, people.scope, "Thomas Müller (swimmer)", "sourceId", []
        )
    assert qualified == UUID(other["nodeId"])


async def test_a_reference_may_leave_out_accents(people: AgentGraph) -> None:
    node = (await _add(people, "Thomas Müller", "footballer", properties=FOOTBALLER))["nodeId"]
    async with people.database.transaction() as session:
        found = await references.resolve_node_id(
            session, people.scope, "Thomas Muller", "sourceId", []
        )
    assert found == UUID(node)


async def test_keys_of_earlier_versions_are_found(people: AgentGraph) -> None:
    """They have no accents, but the name is stored as it was written."""
    node = (await _add(people, "Thomas Müller", "footballer", properties=FOOTBALLER))["nodeId"]
    async with people.database.transaction() as session:
        row = await session.scalar(select(GraphName))
        assert row is not None
        assert row.key == "thomas müller"
        await session.execute(
            GraphName.__table__.update().values(key="thomas muller")  # type: ignore[attr-defined]  # a Table
        )
    assert (await _add(people, "Thomas Müller", "footballer", properties=FOOTBALLER))[
        "nodeId"
    ] == node
    other = await _add(
        people,
        "Thomas Muller",
        "swimmer",
        properties=SWIMMER,
        distinctFrom=[node],
        qualifier="swimmer",
    )
    assert other["created"]


async def _resolve(graph: AgentGraph, pair: Pair) -> bool:
    """Whether the known thing is what the written one is resolved to, or is asked about. Nothing is kept."""
    async with graph.database.transaction() as session:
        known = await aliases.resolve_name(
            session, graph.scope, NameRequest(pair.type_name, pair.one.name)
        )
        node_id = known.node.node_id
        await session.insert(
            GraphNode,
            id=node_id,
            agent_id=graph.scope.agent_id,
            type=pair.type_name,
            name=known.node.name,
            properties=pair.one.properties,
        )
        for row in known.missing_rows:
            await session.insert(GraphName, **row)
        request = NameRequest(
            pair.type_name,
            pair.other.name,
            duplicate_threshold=DUPLICATE_THRESHOLD,
            properties=pair.other.properties,
        )
        try:
            resolved = await aliases.resolve_name(session, graph.scope, request)
            outcome = str(resolved.node.node_id)
        except ToolRefusalError as question:
            outcome = str(question)
        await session.rollback()
    return str(node_id) in outcome


OTHER_NAMES: Final = 1_500
"""Names of each type, made of the words of the pairs, besides those of the pair."""


async def _fill(graph: AgentGraph, pairs: list[Pair], random: Random) -> None:
    type_names = sorted({pair.type_name for pair in pairs})
    for type_name in type_names:
        if type_name != "Country":
            await graph.node_type(type_name)
        names = [
            each.name
            for pair in pairs
            if pair.type_name == type_name
            for each in (pair.one, pair.other)
        ]
        given = {normalize(name, type_name).base for name in names}
        words = sorted({word for name in names for word in name.split()})
        others = {" ".join(random.sample(words, min(3, len(words)))) for _ in range(OTHER_NAMES)}
        keys = {normalize(other, type_name).key: other for other in sorted(others)}
        async with graph.database.transaction() as session:
            await session.insert(
                GraphNode,
                id=uuid4(),
                agent_id=graph.scope.agent_id,
                type=type_name,
                name=f"{type_name} of all other names",
                properties={},
            )
            [node_id] = await session.scalars(
                select(GraphNode.id).where(GraphNode.type == type_name)
            )
            await session.insert_all(
                GraphName,
                [
                    aliases.name_row(graph.scope, (type_name, key), name, node_id)
                    for key, name in keys.items()
                    if key not in given
                ],
            )


async def test_the_index_finds_what_is_the_same_among_many_names(agent_graph: AgentGraph) -> None:
    pairs = load_pairs("development")
    await _fill(agent_graph, pairs, Random(9))
    missed: dict[str, list[str]] = {"same": [], "unknown": []}
    counts: Counter[str] = Counter(pair.label for pair in pairs)
    for pair in pairs:
        if pair.label != "different" and not await _resolve(agent_graph, pair):
            missed[pair.label].append(pair.text)
    for label, texts in missed.items():
        found = 1 - len(texts) / counts[label]
        assert found >= 0.9, f"{label}: {found:.3f}\n" + "\n".join(texts)
