"""A chain as a tree: what is shown, what is named only, and what is asked for later."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from services.api.web.presenters.provenance import LARGE_LINKS, MAX_QUOTES, Branch, build_chain
from shared.schemas.provenance import (
    BreakView,
    ConclusionLink,
    EvidenceLink,
    SourceLink,
    ThingLink,
    VerificationView,
)

DAY = datetime(2026, 1, 1, tzinfo=UTC)
BREAK = BreakView(broken="seal", message="it was changed")


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
    source: SourceLink, *, stands: bool = True, day: int = 0, broken: bool = False
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
        stands=["price"] if stands else [],
        valid_from=None,
        valid_to=None,
        as_of=DAY + timedelta(days=day),
        learned_at=DAY,
    )


def thing(*quotes: EvidenceLink) -> ThingLink:
    return ThingLink(
        id=uuid4(),
        holds=True,
        breaks=[],
        link="node",
        type="Thing",
        name="a thing",
        properties={},
        rests_on=[each.id for each in quotes],
    )


def verified(
    conclusions: list[ConclusionLink],
    things: list[ThingLink],
    evidence: list[EvidenceLink],
    source: SourceLink,
) -> VerificationView:
    return VerificationView(
        id=conclusions[0].id,
        agent_id=uuid4(),
        holds=True,
        conclusions=conclusions,
        things=things,
        evidence=evidence,
        sources=[source],
    )


def below(branch: Branch, kind: str) -> Iterator[Branch]:
    for each in branch.below:
        if each.kind == kind:
            yield each
        yield from below(each, kind)


def test_it_is_told_down_to_the_quotes_each_link_once() -> None:
    source = page()
    said = quote(source)
    known = thing(said)
    analyses = [conclusion("analysis", [known.id]) for _ in range(2)]
    advice = conclusion("advice", [each.id for each in analyses])
    chain = build_chain(verified([advice, *analyses], [known], [said], source), {})
    nodes = list(below(chain.root, "node"))
    assert [each.is_known for each in nodes] == [False, True]
    assert [each.source for each in below(chain.root, "evidence")] == [source]
    assert chain.is_small
    assert (chain.checked.nodes, chain.checked.evidence, chain.checked.sources) == (4, 1, 1)


def test_superseded_quotes_are_counted_but_those_of_retracted_pages_are_shown() -> None:
    for source, shown in ((page(), 0), (page(retracted_at=DAY), 1)):
        said = quote(source, stands=False)
        known = thing(said)
        root = conclusion("analysis", [known.id])
        chain = build_chain(verified([root], [known], [said], source), {})
        (node,) = below(chain.root, "node")
        assert (len(node.below), node.superseded) == (shown, 1 - shown)


def test_of_many_quotes_the_newest_are_shown_and_all_that_are_broken() -> None:
    source = page()
    said = [quote(source, day=day) for day in range(30)]
    said += [quote(source, day=-day, broken=True) for day in range(2)]
    known = thing(*said)
    root = conclusion("analysis", [known.id])
    chain = build_chain(verified([root], [known], said, source), {})
    (node,) = below(chain.root, "node")
    shown = [each.link for each in node.below]
    assert [each.holds for each in shown[:3]] == [False, False, True]
    assert len(shown) == MAX_QUOTES
    assert node.left_out == len(said) - MAX_QUOTES
    newest = shown[2]
    assert isinstance(newest, EvidenceLink)
    assert newest.quote == "of day 29"
    assert chain.breaks == 2


def test_below_the_analyses_of_large_chains_nothing_is_told_yet() -> None:
    source = page()
    said = [quote(source, day=day) for day in range(LARGE_LINKS)]
    known = thing(*said)
    analysis = conclusion("analysis", [known.id])
    advice = conclusion("advice", [analysis.id])
    chain = build_chain(verified([advice, analysis], [known], said, source), {})
    (left,) = chain.root.below
    assert left.is_left
    assert not left.below
    assert not chain.is_small
    alone = build_chain(verified([analysis], [known], said, source), {})
    assert [each.kind for each in alone.root.below] == ["node"]
