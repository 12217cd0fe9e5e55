"""The proof of a conclusion stays what it was, whatever is learned, merged, split, retracted or read later."""

import json
import re
from dataclasses import asdict
from datetime import UTC, datetime
from io import StringIO
from random import Random
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
from rich.console import Console
from sqlalchemy import delete, select, text, update

from cli.render.console import THEME
from cli.render.provenance import show_chain, show_later, show_summary
from services.api.resources.conclusions import model
from services.notifier.channels import text as mail_text
from services.notifier.payload import ItemData, _describe_checks
from shared.database.tables import ConclusionProof, Evidence, GraphNode, InboxItem, Source
from shared.enums import Entailment
from shared.graph import entity_resolution
from shared.graph.conclusions import conclusions
from shared.graph.entity_resolution.split import split_node
from shared.graph.provenance.integrity import NodeRow
from shared.graph.scope import GraphScope
from shared.graph.transfer.file_reader import BadFileError
from shared.graph.verification.report import verify_conclusion
from shared.runtime.settings import Settings
from shared.schemas.provenance import ConclusionLink, ProofLink, VerificationResponse
from tests.support.api.clients import signed_in_browser
from tests.support.forecast_terms import ADVICE_TERMS, ANALYSIS_TERMS
from tests.support.graph.agent_graph import AgentGraph
from tests.support.graph.evidence_rows import store_verdict
from tests.support.graph.graph_with_evidence import EvidenceGraph
from tests.support.graph.retraction_graph import RetractionGraph
from tests.support.graph.transfer import exported, imported, reseal
from tests.support.graph.verification import check_all
from tests.support.graph.walking import Walk
from tests.support.marks import slow
from tests.support.seeds import repeatable

ITERATIONS: Final = 50
ADVICE: Final = "Buy cocoa of Ghana"
CENSUS: Final = "https://b.example/census"
_FROZEN: Final = {
    *("evidence_id", "is_matched", "is_stated", "completed_from"),
    *("verdict", "sites", "origins", "change"),
}
"""Fields of a row that may change with merges, splits and retractions."""


@pytest.fixture
async def advised(evidence_graph: EvidenceGraph) -> EvidenceGraph:
    """A graph with advice that states figures, a name and a relation, by way of two analyses."""
    await evidence_graph.analysis(
        "People of Ghana", "Ghana [node:{Ghana}] has 35 million people, after 33 million."
    )
    await evidence_graph.analysis(
        "Neighbours", "Ghana borders Togo [edge:{border}], whose capital is Lomé [node:{Togo}]."
    )
    await evidence_graph.advice(
        ADVICE,
        "Ghana has 35 million people [node:{People of Ghana}], and Lomé is near [node:{Neighbours}].",
        replaces=[evidence_graph.nodes["Wait"]],
        change="The census was published.",
    )
    return evidence_graph


async def verify(graph: EvidenceGraph, name: str) -> VerificationResponse:
    return await verify_in(graph.agent_graph, graph.scope, graph.nodes[name])


async def verify_in(
    agent_graph: AgentGraph, scope: GraphScope, conclusion_id: UUID
) -> VerificationResponse:
    async with agent_graph.database.snapshot() as session:
        report = await verify_conclusion(session, scope.owner_id, conclusion_id)
    assert report is not None
    return report


def stated(conclusion: ConclusionLink) -> list[tuple[str, str | None, Any, str]]:
    return [(row.name, row.property, row.value, row.quote) for row in conclusion.proof]


async def learn(
    graph: EvidenceGraph,
    number: int,
    name: str,
    sentence: str,
    claims: dict[str, Any],
    **dates: Any,
) -> UUID:
    """As an iteration does: a new page says something of a node or edge."""
    url = f"https://n{number}.example/{name}"
    await graph.page(url, f"{sentence}\n", published=dates.pop("published", None))
    return await graph.says(url, sentence, name, claims, learned_at=datetime.now(UTC), **dates)


async def learn_for_many_iterations(graph: EvidenceGraph) -> None:
    """New sentences on each node and edge that the advice rests on, more nodes, and more conclusions."""
    for number in range(ITERATIONS):
        await learn(
            graph,
            number,
            "Togo",
            f"Report {number}: Togo has 9 million people.",
            {"population": 9e6},
        )
        await learn(graph, number, "border", f"Report {number}: Ghana borders Togo.", {})
        await learn(
            graph,
            number,
            "Ghana",
            f"Report {number} describes Ghana.",
            {"summary": f"State {number}."},
        )
        if number % 10 == 0:
            other = f"Country {number}"
            await graph.country(other)
            await learn(
                graph,
                100 + number,
                other,
                f"{other} has 35 million people.",
                {"population": 35_000_000},
            )
            await graph.analysis(
                f"More on Ghana {number}", "Ghana [node:{Ghana}] has 35 million people."
            )


def as_shown(report: VerificationResponse) -> tuple[str, str]:
    """The output of `vigil verify`: the proof, and what was learned since."""
    proof, later = StringIO(), StringIO()
    console = Console(file=proof, width=200, theme=THEME, color_system=None)
    show_chain(console, report)
    show_summary(console, report)
    show_later(Console(file=later, width=200, theme=THEME, color_system=None), report)
    return proof.getvalue(), later.getvalue()


async def page_of(
    graph: EvidenceGraph, settings: Settings, name: str
) -> tuple[list[str], list[str]]:
    """The proofs in the page of the conclusion's chain and its counts, as HTML; and what was learned since."""
    owned = settings.model_copy(update={"owner": "owner of watcher"})
    async with signed_in_browser(owned, graph.agent_graph.database) as browser:
        path = f"/agents/{graph.scope.agent_id}/conclusions/{graph.nodes[name]}/chain"
        response = await browser.get(path)
    assert response.status_code == 200, response.text
    proofs = re.findall(r'<ul class="chain" data-proof=.*?</ul>', response.text, re.DOTALL)
    counts = re.findall(r'<ul class="plain seal-counts">.*?</ul>', response.text, re.DOTALL)
    assert proofs
    assert counts
    since = re.findall(r"<strong>Since then:</strong> ([^<]*)\.</p>", response.text)
    return [*proofs, *counts], since


async def exported_proofs(graph: EvidenceGraph) -> dict[str, str]:
    """By name of the conclusion, its proof in an export."""
    lines = (await exported(graph)).splitlines()
    nodes = [json.loads(line)["node"] for line in lines if line.startswith(b'{"node"')]
    return {node["name"]: json.dumps(node["proof"]) for node in nodes if node["proof"]}


async def mail_of(graph: EvidenceGraph, name: str) -> str | None:
    async with graph.agent_graph.database.transaction() as session:
        node = await session.get_one(GraphNode, graph.nodes[name])
        item = await session.scalar(select(InboxItem).where(InboxItem.node_id == node.id))
        assert item is not None
        return await _describe_checks(session, item, node)


async def test_a_proof_stays_the_same_for_fifty_iterations(
    advised: EvidenceGraph, settings: Settings
) -> None:
    before = await verify(advised, ADVICE)
    shown, since = as_shown(before)
    page, page_since = await page_of(advised, settings, ADVICE)
    file = await exported_proofs(advised)
    mail = await mail_of(advised, ADVICE)
    assert (since, page_since) == ("", [])
    assert [(each.name, stated(each)) for each in before.conclusions] == [
        (
            ADVICE,
            [
                ("Ghana", "population", 35_000_000, "Ghana now counts 35 million people"),
                ("Togo", "capital", "Lomé", "Its capital is Lomé."),
            ],
        ),
        (
            "People of Ghana",
            [
                ("Ghana", "population", 35_000_000, "Ghana now counts 35 million people"),
                (
                    "Ghana",
                    "population",
                    33_000_000,
                    "Ghana — “the Gold Coast” once — has 33 million",
                ),
            ],
        ),
        (
            "Neighbours",
            [
                ("Togo", "capital", "Lomé", "Its capital is Lomé."),
                ("Ghana → Togo", None, None, "It borders Togo along 1,098 km."),
            ],
        ),
    ]
    assert mail == "4 sentences found in 3 pages; not read by a model"

    await learn_for_many_iterations(advised)
    await learn(advised, 201, "Ghana", "Ghana has 35 million people.", {"population": 35_000_000})
    await learn(advised, 202, "Ghana", "It has 36 million people.", {"population": 36_000_000})
    await learn(advised, 203, "Togo", "Lomé is the capital.", {"capital": "Lomé"})

    after = await verify(advised, ADVICE)
    assert [each.proof for each in after.conclusions] == [each.proof for each in before.conclusions]
    assert after.checked == before.checked
    assert (after.sites, after.holds) == (before.sites, True)
    shown_after, since = as_shown(after)
    assert shown_after == shown
    page_after, page_since = await page_of(advised, settings, ADVICE)
    assert page_after == page
    file_after = await exported_proofs(advised)
    assert {name: file_after[name] for name in file} == file
    assert await mail_of(advised, ADVICE) == mail
    assert (await check_all(advised.agent_graph.database, advised.scope, 500))[1] == []

    by_name = {each.name: each.since for each in after.conclusions}
    assert by_name[ADVICE].in_words == "2 confirm, 1 contradicts"
    assert by_name["People of Ghana"].in_words == "1 confirms, 1 contradicts"
    assert by_name["Neighbours"].in_words == f"{1 + ITERATIONS} confirm"
    assert since.splitlines()[0] == f"Since then, on advice “{ADVICE}”: 2 confirm, 1 contradicts."
    assert page_since == ["2 confirm, 1 contradicts", "1 confirms, 1 contradicts", "51 confirm"]
    [contradicting, *_] = by_name[ADVICE].latest
    assert (contradicting.relation, contradicting.value) == ("contradicts", 36_000_000)
    assert contradicting.quote == "It has 36 million people."


async def test_a_later_value_of_a_later_date_is_newer_and_does_not_contradict(
    advised: EvidenceGraph,
) -> None:
    later = datetime(2026, 9, 1, tzinfo=UTC)
    earlier = datetime(2026, 2, 1, tzinfo=UTC)
    for number, published in enumerate((later, earlier)):
        await learn(
            advised, number, "Ghana", f"It has {36 + number} million people.",
            {"population": (36 + number) * 10**6}, published=published,
        )  # fmt: skip
    [analysis] = (await verify(advised, "People of Ghana")).conclusions
    assert analysis.since.in_words == "1 contradicts, 1 has a newer value"
    assert {each.relation: each.value for each in analysis.since.latest} == {
        "newer": 36_000_000,
        "contradicts": 37_000_000,
    }


async def test_what_was_learned_before_counts_as_agreeing_and_not_as_since(
    evidence_graph: EvidenceGraph,
) -> None:
    await learn(
        evidence_graph, 1, "Ghana", "Ghana has 35 million people.", {"population": 35_000_000}
    )
    await evidence_graph.analysis("People", "Ghana [node:{Ghana}] has 35 million people.")
    report = await verify(evidence_graph, "People")
    [analysis] = report.conclusions
    [row] = analysis.proof
    assert row.sites == ["b.example", "n1.example"]
    assert analysis.since.in_words == ""
    assert report.sites == ["b.example", "n1.example"]
    assert report.checked.evidence == 1


async def test_a_retracted_page_is_named_in_the_proof_and_takes_nothing_from_it(
    advised: EvidenceGraph,
) -> None:
    before = await verify(advised, ADVICE)
    retraction_graph = RetractionGraph(advised.agent_graph)
    retraction_id = await retraction_graph.retract(CENSUS)
    after = await verify(advised, ADVICE)
    changed = {row.name: row.change for row in after.conclusions[0].proof}
    assert changed.keys() == {"Ghana", "Togo"}
    assert changed["Togo"] is None
    assert changed["Ghana"] is not None
    assert changed["Ghana"].startswith("Its page was retracted on 20")
    assert frozen_proofs(after) == frozen_proofs(before)
    assert after.checked == before.checked
    assert "People of Ghana" in {doubt.name for doubt in after.doubts}
    await retraction_graph.restore(retraction_id)
    assert (await verify(advised, ADVICE)).conclusions == before.conclusions


def frozen(row: ProofLink) -> str:
    return row.model_dump_json(exclude=_FROZEN)


def frozen_proofs(report: VerificationResponse) -> dict[UUID, list[str]]:
    return {each.id: [frozen(row) for row in each.proof] for each in report.conclusions}


async def test_a_proof_follows_a_merge_and_its_undoing(advised: EvidenceGraph) -> None:
    before = await verify(advised, ADVICE)
    await advised.country("Republic of Ghana")
    await learn(
        advised, 1, "Republic of Ghana", "The Republic of Ghana is old.", {"summary": "Old."}
    )
    merge_id = await merge(advised, kept="Republic of Ghana", merged="Ghana")
    after = await verify(advised, ADVICE)
    assert frozen_proofs(after) == frozen_proofs(before)
    assert after.holds
    changes = {row.name: row.change for row in after.conclusions[0].proof}
    assert changes == {"Ghana": "Ghana was merged into Republic of Ghana", "Togo": None}
    assert after.checked.evidence == before.checked.evidence
    await learn(advised, 2, "Republic of Ghana", "It has 35 million.", {"population": 35_000_000})
    assert (await verify(advised, ADVICE)).conclusions[0].since.in_words == "1 confirms"
    async with advised.agent_graph.database.transaction() as session:
        await entity_resolution.undo_merge(session, advised.scope, merge_id)
    assert (await verify(advised, ADVICE)).conclusions[0].proof == before.conclusions[0].proof


async def merge(graph: EvidenceGraph, *, kept: str, merged: str) -> UUID:
    async with graph.agent_graph.database.transaction() as session:
        made = await entity_resolution.merge_nodes(
            session,
            graph.scope,
            kept_id=graph.nodes[kept],
            merged_id=graph.nodes[merged],
            reason="One thing.",
            made_by=graph.scope.owner_id,
        )
    assert made is not None
    return made.id


async def test_a_proof_says_that_a_split_has_moved_its_sentence(advised: EvidenceGraph) -> None:
    before = await verify(advised, ADVICE)
    async with advised.agent_graph.database.transaction() as session:
        source_id = advised.sources[CENSUS]
        rows = await session.scalars(select(Evidence.id).where(Evidence.source_id == source_id))
        moved = await split_node(
            session,
            advised.scope,
            node_id=advised.nodes["Ghana"],
            evidence_ids=rows.all(),
            qualifier="empire",
            reason="Another thing.",
            made_by=advised.scope.owner_id,
        )
    assert moved is not None
    after = await verify(advised, ADVICE)
    assert frozen_proofs(after) == frozen_proofs(before)
    changes = {row.name: row.change for row in after.conclusions[0].proof}
    assert changes == {"Ghana": "It is about Ghana (empire) now", "Togo": None}
    assert after.checked.evidence == before.checked.evidence
    assert after.checked.quotes_found == before.checked.quotes_found


async def test_a_later_reading_is_no_part_of_the_count_and_is_said(
    advised: EvidenceGraph, settings: Settings
) -> None:
    before = await verify(advised, ADVICE)
    [ghana, togo] = before.conclusions[0].proof
    assert ghana.evidence_id
    assert togo.evidence_id
    graph = advised.agent_graph
    await store_verdict(graph, ghana.evidence_id, Entailment.SUPPORTED, "")
    await store_verdict(graph, togo.evidence_id, Entailment.CONTRADICTED, "of Ghana")
    after = await verify(advised, ADVICE)
    assert after.checked == before.checked
    changes = [row.change for row in after.conclusions[0].proof]
    assert changes == [None, "Read since: contradicted (of Ghana)"]
    shown, _ = as_shown(after)
    assert "✓ population of Ghana" in shown
    assert "○ capital of Togo" in shown, "no mark of success"
    [proof, *_], _ = await page_of(advised, settings, ADVICE)
    assert re.findall(r'data-holds="(\w+)"', proof) == ["yes", "doubted"]
    # Of a conclusion that comes after the reading, it counts.
    await advised.analysis("People", "Ghana [node:{Ghana}] has 35 million people.")
    report = await verify(advised, "People")
    assert report.checked.evidence_found_supported == 1
    [row] = report.conclusions[0].proof
    assert row.verdict is not None
    assert row.verdict.verdict == "supported"


async def test_a_contradicted_or_retracted_sentence_proves_nothing(
    evidence_graph: EvidenceGraph,
) -> None:
    await learn(evidence_graph, 1, "Togo", "The town of Lomé is the capital.", {"capital": "Lomé"})
    async with evidence_graph.agent_graph.database.transaction() as session:
        rows = await session.scalars(
            select(Evidence.id).where(
                Evidence.claims.has_key("capital"), Evidence.node_id == evidence_graph.nodes["Togo"]
            )
        )
        ids = rows.all()
    assert len(ids) == 2
    await store_verdict(evidence_graph.agent_graph, ids[0], Entailment.CONTRADICTED, "no")
    await evidence_graph.analysis("Capital", "The capital of Togo [node:{Togo}] is Lomé.")
    [analysis] = (await verify(evidence_graph, "Capital")).conclusions
    assert [row.evidence_id for row in analysis.proof] == [ids[1]]


async def test_a_changed_page_is_no_longer_found(advised: EvidenceGraph) -> None:
    async with advised.agent_graph.database.transaction() as session:
        changed = update(Source).where(Source.id == advised.sources[CENSUS])
        await session.execute(
            changed.values(text="Ghana now counts 35 million people, it is said.")
        )
    report = await verify(advised, ADVICE)
    assert not report.holds
    assert (report.checked.quotes_found, report.checked.evidence) == (3, 4)
    shown, _ = as_shown(report)
    assert "✗ population of Ghana = 35000000: “Ghana now counts 35 million people”" in shown


async def test_a_row_of_a_proof_that_was_changed_is_found(advised: EvidenceGraph) -> None:
    graph = advised.agent_graph
    async with graph.database.transaction() as session:
        await session.execute(text("set local application_name = 'psql'"))
        of_advice = ConclusionProof.conclusion_id == advised.nodes[ADVICE]
        await session.execute(update(ConclusionProof).where(of_advice).values(end_byte=10**6))
    report = await verify(advised, ADVICE)
    assert not report.holds
    assert {"proof", "changed"} <= {fault.broken for fault in report.conclusions[0].breaks}
    _, faults = await check_all(graph.database, advised.scope, 500)
    assert {"proof", "changed"} <= {fault.broken for fault in faults if fault.link == "proof"}


async def forget_proofs(graph: EvidenceGraph) -> None:
    """As if all conclusions were of a release that stores no proof."""
    async with graph.agent_graph.database.transaction() as session:
        await session.execute(delete(ConclusionProof))
        for node in (
            await session.scalars(select(GraphNode).where(GraphNode.rules.is_not(None)))
        ).all():
            rules = {key: value for key, value in (node.rules or {}).items() if key != "proof"}
            values = {name: getattr(node, name) for name in NodeRow.model_fields}
            seal = NodeRow(**{**values, "rules": rules}).sealed(graph.scope.agent_id, [])
            changed = update(GraphNode).where(GraphNode.id == node.id)
            await session.execute(changed.values(rules=rules, seal=seal))


async def test_a_conclusion_without_a_stored_proof_shows_what_was_known_then(
    advised: EvidenceGraph, settings: Settings
) -> None:
    before = await verify(advised, ADVICE)
    await forget_proofs(advised)
    await learn(advised, 1, "Ghana", "Ghana has 35 million people.", {"population": 35_000_000})
    after = await verify(advised, ADVICE)
    assert frozen_proofs(after) == frozen_proofs(before)
    assert [each.is_proof_stored for each in after.conclusions] == [False] * 3
    assert after.conclusions[0].since.in_words == "1 confirms"
    assert "Concluded by a release that stored no proof." in as_shown(after)[0]
    assert await mail_of(advised, ADVICE) is None
    page, _ = await page_of(advised, settings, ADVICE)
    assert page


async def node_named(graph: EvidenceGraph, scope: GraphScope, name: str) -> UUID:
    of_name = (GraphNode.agent_id == scope.agent_id, GraphNode.name == name)
    async with graph.agent_graph.database.transaction() as session:
        node_id = await session.scalar(select(GraphNode.id).where(*of_name))
    assert node_id is not None
    return node_id


async def test_a_copy_has_the_same_proof(advised: EvidenceGraph) -> None:
    before = await verify(advised, ADVICE)
    await learn(advised, 1, "Ghana", "Ghana has 35 million people.", {"population": 35_000_000})
    file = await exported(advised)
    scope = await imported(advised, file)
    copy = await verify_in(advised.agent_graph, scope, await node_named(advised, scope, ADVICE))
    assert copy.holds
    assert [stated(each) for each in copy.conclusions] == [
        stated(each) for each in before.conclusions
    ]
    assert copy.checked == before.checked
    assert copy.conclusions[0].since.in_words == "1 confirms"
    _, faults = await check_all(advised.agent_graph.database, scope, 500)
    assert faults == []


async def test_a_file_whose_proof_quotes_an_unknown_page_is_refused(advised: EvidenceGraph) -> None:
    lines = (await exported(advised)).splitlines(keepends=True)
    for place, line in enumerate(lines):
        value = json.loads(line)
        if (value.get("node") or {}).get("proof"):
            value["node"]["proof"][0]["source_id"] = str(uuid4())
            lines[place] = json.dumps(value, separators=(",", ":")).encode() + b"\n"
    with pytest.raises(BadFileError, match=r"a proof quotes page .* which the file does not have"):
        await imported(advised, reseal(lines))


async def test_an_export_without_proofs_is_imported(advised: EvidenceGraph) -> None:
    """As an earlier release has written it."""
    before = await verify(advised, ADVICE)
    await forget_proofs(advised)
    lines = (await exported(advised)).splitlines(keepends=True)
    for place, line in enumerate(lines):
        value = json.loads(line)
        if "node" in value:
            del value["node"]["proof"]
            lines[place] = json.dumps(value, separators=(",", ":")).encode() + b"\n"
    scope = await imported(advised, reseal(lines))
    copy = await verify_in(advised.agent_graph, scope, await node_named(advised, scope, ADVICE))
    assert copy.holds
    assert [stated(each) for each in copy.conclusions] == [
        stated(each) for each in before.conclusions
    ]
    assert not any(each.is_proof_stored for each in copy.conclusions)


async def test_a_list_counts_the_pages_of_the_proof(
    advised: EvidenceGraph, settings: Settings
) -> None:
    async def counted() -> model.Basis:
        access = type("Access", (), {})()
        async with advised.agent_graph.database.transaction() as session:
            access.session, access.scope = session, advised.scope
            ids = [advised.nodes[ADVICE]]
            return (await model.count_basis(access, ids))[ids[0]]

    assert asdict(await counted()) == {"pages": 3, "sites": 2, "retracted": 0}
    await learn(advised, 1, "Ghana", "Ghana has 35 million people.", {"population": 35_000_000})
    assert asdict(await counted()) == {"pages": 3, "sites": 2, "retracted": 0}
    await forget_proofs(advised)
    assert asdict(await counted()) == {"pages": 3, "sites": 2, "retracted": 0}


def test_a_mail_says_the_levels_of_verification() -> None:
    data = ItemData(
        inbox_item_id=uuid4(),
        agent_id=uuid4(),
        agent_name="Watch",
        title="HOLD: Wait",
        summary="Wait.",
        checked="4 sentences found in 3 pages; read by gpt-x: supported",
    )
    said = "Checked when it was given: 4 sentences found in 3 pages; read by gpt-x: supported."
    assert said in mail_text(data)


class ProofWalk(Walk):
    """Its conclusions state what the cited nodes and edges say."""

    async def analyse(self) -> None:
        [node] = await self._some(GraphNode, 1, GraphNode.type == "Country")
        values = node.properties
        said = (
            f"{node.name} has {values['population']} people"
            if "population" in values
            else node.name
        )
        capital = f", and its capital is {values['capital']}" if "capital" in values else ""
        await self._state(
            conclusions.add_analysis,
            f"{said}{capital} [node:{node.id}].",
            kind="pattern",
            **ANALYSIS_TERMS,
        )

    async def advise(self) -> None:
        analyses = await self._some(GraphNode, 2, GraphNode.properties["type"].astext == "pattern")
        texts = [each.properties["content"].split(" [node")[0] for each in analyses]
        content = " ".join(
            f"{said} [node:{each.id}]." for said, each in zip(texts, analyses, strict=True)
        )
        await self._state(conclusions.add_advice, content, action="HOLD", **ADVICE_TERMS)

    async def _state(self, add: Any, content: str, **fields: Any) -> None:
        self.conclusion_count += 1
        async with self.agent_graph.database.transaction() as session:
            await add(
                session, self.agent_graph.scope, name=f"Conclusion {self.conclusion_count}", summary="So it is.",
                content=content, **fields,
            )  # fmt: skip


@pytest.mark.parametrize("steps", [60, *slow(150)])
async def test_no_walk_changes_a_proof(agent_graph: AgentGraph, seed: int, steps: int) -> None:
    """Writes, merges, retractions and readings at random: each proof says what it said first, of what it says now."""
    with repeatable(seed):
        walk = ProofWalk(agent_graph, Random(seed))
        await walk.begin()
        first: dict[UUID, list[str]] = {}
        counts: dict[UUID, tuple[int, int, int]] = {}
        names: dict[UUID, str] = {}
        for number in range(steps):
            action = await walk.step()
            if number % 5 and number + 1 < steps:
                continue
            async with agent_graph.database.transaction() as session:
                nodes = await session.scalars(
                    select(GraphNode).where(GraphNode.rules.is_not(None)).order_by(GraphNode.id)
                )
                ids = [node.id for node in nodes]
            for conclusion_id in ids:
                report = await verify_in(agent_graph, agent_graph.scope, conclusion_id)
                where = f"{conclusion_id} after step {number}: {action}"
                [root, *_] = report.conclusions
                names[conclusion_id] = root.name
                assert first.setdefault(conclusion_id, list(map(frozen, root.proof))) == list(
                    map(frozen, root.proof)
                ), where
                checked = report.checked
                count = checked.evidence, checked.quotes_found, checked.sources
                assert counts.setdefault(conclusion_id, count) == count, where
                assert checked.quotes_found == checked.evidence, where
                faults = {each.broken for link in report.conclusions for each in link.breaks}
                assert faults == set(), where
                for row in root.proof:
                    assert row.evidence_id or row.change, where
                since = root.since
                assert since.confirms + since.contradicts + since.newer >= bool(since.latest), where
        assert sum(map(len, first.values())) > 0
        print(f"{len(first)} conclusions, {sum(map(len, first.values()))} rows of proofs unchanged")


async def test_other_words_for_the_same_do_not_contradict(advised: EvidenceGraph) -> None:
    await learn(
        advised, 1, "Togo", "The capital is the port of Lomé.", {"capital": "the port of Lomé"}
    )
    [analysis] = (await verify(advised, "Neighbours")).conclusions
    assert analysis.since.in_words == ""
    await learn(advised, 2, "Togo", "Kara is the capital.", {"capital": "Kara"})
    [analysis] = (await verify(advised, "Neighbours")).conclusions
    assert analysis.since.in_words == "1 contradicts"
