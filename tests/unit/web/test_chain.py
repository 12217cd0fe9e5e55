"""A provenance chain as a tree: shown, repeated and deferred branches."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from services.api.resources.conclusions.chain import (
    LARGE_LINKS,
    MAX_KEY_QUOTES,
    MAX_QUOTES,
    Branch,
    build_chain,
    sentence_after,
    sentence_before,
)
from shared.schemas.provenance import (
    CheckedCounts,
    ConclusionLink,
    ElementDoubt,
    ElementLink,
    EvidenceLink,
    LinkFault,
    SourceLink,
    VerificationResponse,
)

DAY = datetime(2026, 1, 1, tzinfo=UTC)
BREAK = LinkFault(broken="seal", message="it was changed")


def conclusion(link: str, rests_on: Iterable[UUID]) -> ConclusionLink:
    return ConclusionLink(
        id=uuid4(),
        holds=True,
        breaks=[],
        link=link,
        name=link,
        summary="",
        rests_on=[*rests_on],
        doubts=[],
    )


def page(retracted_at: datetime | None = None) -> SourceLink:
    return SourceLink(
        id=uuid4(),
        holds=True,
        breaks=[],
        url="https://a.example",
        title=None,
        published=None,
        fetched_at=DAY,
        retracted_at=retracted_at,
    )


def quote(
    source: SourceLink, *, is_active: bool = True, day: int = 0, broken: bool = False
) -> EvidenceLink:
    return EvidenceLink(
        id=uuid4(),
        holds=not broken,
        breaks=[BREAK] if broken else [],
        element_id=uuid4(),
        source_id=source.id,
        quote=f"of day {day}",
        first_byte=0,
        end_byte=1,
        claims={"price": day},
        active_properties=["price"] if is_active else [],
        valid_from=None,
        valid_to=None,
        as_of=DAY + timedelta(days=day),
        learned_at=DAY,
    )


def element(*quotes: EvidenceLink) -> ElementLink:
    return ElementLink(
        id=uuid4(),
        holds=True,
        breaks=[],
        link="node",
        type="Thing",
        name="a thing",
        properties={},
        rests_on=[evidence.id for evidence in quotes],
    )


def verification(
    conclusions: list[ConclusionLink],
    elements: list[ElementLink],
    evidence: list[EvidenceLink],
    source: SourceLink,
) -> VerificationResponse:
    return VerificationResponse(
        id=conclusions[0].id,
        agent_id=uuid4(),
        holds=True,
        checked=CheckedCounts(
            sources=1, evidence=len(evidence), nodes=len(conclusions) + len(elements)
        ),
        conclusions=conclusions,
        elements=elements,
        evidence=evidence,
        sources=[source],
        sites=["a.example"],
        origins=[["a.example"]],
    )


def descendants(branch: Branch, kind: str) -> Iterator[Branch]:
    for child in branch.below:
        if child.kind == kind:
            yield child
        yield from descendants(child, kind)


def test_a_chain_is_shown_down_to_its_quotes_and_each_link_once() -> None:
    source = page()
    evidence = quote(source)
    node_link = element(evidence)
    analyses = [conclusion("analysis", [node_link.id]) for _ in range(2)]
    advice = conclusion("advice", [link.id for link in analyses])
    chain = build_chain(verification([advice, *analyses], [node_link], [evidence], source), {})
    nodes = list(descendants(chain.root, "node"))
    assert [branch.is_known for branch in nodes] == [False, True]
    assert [branch.source for branch in descendants(chain.root, "evidence")] == [source]
    assert chain.is_small
    assert (chain.checked.nodes, chain.checked.evidence, chain.checked.sources) == (4, 1, 1)


def test_superseded_quotes_are_counted_and_those_of_retracted_pages_shown() -> None:
    for source, expected in ((page(), 0), (page(retracted_at=DAY), 1)):
        evidence = quote(source, is_active=False)
        node_link = element(evidence)
        root = conclusion("analysis", [node_link.id])
        chain = build_chain(verification([root], [node_link], [evidence], source), {})
        (node,) = descendants(chain.root, "node")
        assert (len(node.below), node.superseded) == (expected, 1 - expected)


def test_the_newest_and_all_broken_quotes_are_shown() -> None:
    source = page()
    quotes = [quote(source, day=day) for day in range(30)]
    quotes += [quote(source, day=-day, broken=True) for day in range(2)]
    node_link = element(*quotes)
    root = conclusion("analysis", [node_link.id])
    chain = build_chain(verification([root], [node_link], quotes, source), {})
    (node,) = descendants(chain.root, "node")
    links = [branch.link for branch in node.below]
    assert [link.holds for link in links[:3]] == [False, False, True]
    assert len(links) == MAX_QUOTES
    assert node.left_out == len(quotes) - MAX_QUOTES
    newest = links[2]
    assert isinstance(newest, EvidenceLink)
    assert newest.quote == "of day 29"
    assert chain.breaks == 2


def test_quotes_are_shown_with_the_sentences_around_them() -> None:
    source = page()
    evidence = quote(source)
    node_link = element(evidence)
    root = conclusion("analysis", [node_link.id])
    around = {evidence.id: ("One. Two e.g. here.\nThree is", "cut off. Four.\nFive.")}
    chain = build_chain(verification([root], [node_link], [evidence], source), {}, around)
    (branch,) = descendants(chain.root, "evidence")
    assert (branch.before, branch.after) == ("Three is", "cut off.")


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("", "", ""),
        ("One. Two.", "Two.", "One."),
        ("\n\n# Head\n\n", "Head", "Head"),
        ("x" * 300, "…" + "x" * 280, "x" * 280 + "…"),
    ],
)
def test_a_sentence_that_is_cut_has_an_ellipsis(text: str, before: str, after: str) -> None:
    assert (sentence_before(text), sentence_after(text)) == (before, after)


def test_the_key_quotes_are_broken_ones_then_those_with_stated_figures() -> None:
    source, other = page(), page()
    quotes = [quote(source, day=day) for day in range(20)]
    stated = quote(other).model_copy(update={"quote": "They bought 41,000 tonnes in 2025."})
    broken = quote(source, broken=True)
    node_link = element(*quotes, stated, broken)
    evidence = [
        each.model_copy(update={"element_id": node_link.id}) for each in (*quotes, stated, broken)
    ]
    root = conclusion("analysis", [node_link.id]).model_copy(
        update={"summary": "In 2025 they bought 41,000 tonnes, of day 7."}
    )
    chain = build_chain(verification([root], [node_link], evidence, source), {})
    shown = [branch.link.id for branch, _ in chain.key_quotes]
    assert shown[:2] == [broken.id, stated.id]
    assert len(shown) == MAX_KEY_QUOTES
    assert {name for _, name in chain.key_quotes} == {"a thing"}


def test_what_rests_on_a_retracted_page_is_in_doubt_and_counted() -> None:
    trusted, retracted = page(), page(retracted_at=DAY)
    quotes = [quote(trusted), quote(retracted)]
    nodes = [element(each) for each in quotes]
    root = conclusion("analysis", [node_link.id for node_link in nodes])
    doubt = ElementDoubt(
        link="analysis",
        id=root.id,
        name=root.name,
        since=DAY,
        source_id=retracted.id,
        url=retracted.url,
        reason="nobody confirms it",
        elements=[nodes[1].id],
    )
    other_page = trusted.model_copy(update={"url": "https://b.example"})
    result = verification([root], nodes, quotes, retracted).model_copy(
        update={"sources": [other_page, retracted], "doubts": [doubt]}
    )
    chain = build_chain(result, {})
    assert chain.is_doubted
    assert (chain.pages, chain.pages_retracted, chain.quotes_retracted) == (2, 1, 1)
    assert chain.root.is_doubted
    assert [branch.is_doubted for branch in descendants(chain.root, "node")] == [False, True]
    assert [branch.is_doubted for branch in descendants(chain.root, "evidence")] == [False, True]
    # Of a page with a version that is trusted, nothing is lost.
    both = build_chain(result.model_copy(update={"sources": [trusted, retracted]}), {})
    assert (both.pages, both.pages_retracted) == (1, 0)


@pytest.mark.parametrize(("broken", "found"), [("seal", 2), ("quote", 1), ("span", 1)])
def test_only_quotes_that_are_in_their_page_count_as_found(broken: str, found: int) -> None:
    source = page()
    fault = LinkFault(broken=broken, message="it was changed")
    faulty = quote(source).model_copy(update={"holds": False, "breaks": [fault]})
    evidence = [quote(source), faulty]
    node_link = element(*evidence)
    root = conclusion("analysis", [node_link.id])
    chain = build_chain(verification([root], [node_link], evidence, source), {})
    assert (chain.quotes_found, chain.checked.evidence) == (found, 2)
    changed = source.model_copy(update={"breaks": [LinkFault(broken="text", message="")]})
    chain = build_chain(verification([root], [node_link], evidence, changed), {})
    assert chain.quotes_found == 0


def test_large_chains_stop_at_their_analyses() -> None:
    source = page()
    quotes = [quote(source, day=day) for day in range(LARGE_LINKS)]
    node_link = element(*quotes)
    analysis = conclusion("analysis", [node_link.id])
    advice = conclusion("advice", [analysis.id])
    chain = build_chain(verification([advice, analysis], [node_link], quotes, source), {})
    (branch,) = chain.root.below
    assert branch.is_left
    assert not branch.below
    assert not chain.is_small
    analysis_chain = build_chain(verification([analysis], [node_link], quotes, source), {})
    assert [child.kind for child in analysis_chain.root.below] == ["node"]
