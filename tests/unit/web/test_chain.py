"""A provenance chain as a tree: shown, repeated and deferred branches."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from services.api.resources.conclusions.chain import (
    LARGE_ROWS,
    SMALL_ROWS,
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
    ProofLink,
    SourceLink,
    VerdictResponse,
    VerificationResponse,
)

DAY = datetime(2026, 1, 1, tzinfo=UTC)
BREAK = LinkFault(broken="seal", message="it was changed")


def conclusion(link: str, rests_on: Iterable[UUID], *proof: ProofLink) -> ConclusionLink:
    return ConclusionLink(
        id=uuid4(),
        holds=True,
        breaks=[],
        link=link,
        name=link,
        summary="",
        rests_on=[*rests_on],
        doubts=[],
        proof=[*proof],
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


def row(source: SourceLink, evidence: EvidenceLink | None = None, number: int = 1) -> ProofLink:
    return ProofLink(
        number=number,
        sentence=1,
        stated=f"{number} tonnes",
        kind="node",
        element_id=uuid4(),
        type="Thing",
        name="a thing",
        property="tonnes",
        value=number,
        quote=f"They have {number} tonnes.",
        source_id=source.id,
        first_byte=0,
        end_byte=1,
        url=source.url,
        title=source.title,
        published=None,
        fetched_at=DAY,
        evidence_id=evidence.id if evidence else None,
        is_found=True,
        is_matched=True,
        verdict=None,
        sites=["a.example"],
        origins=1,
        change=None,
    )


def quote(source: SourceLink, *, broken: bool = False, verdict: Any = None) -> EvidenceLink:
    return EvidenceLink(
        id=uuid4(),
        holds=not broken,
        breaks=[BREAK] if broken else [],
        element_id=uuid4(),
        source_id=source.id,
        quote="They have 1 tonnes.",
        first_byte=0,
        end_byte=1,
        claims={"tonnes": 1},
        active_properties=["tonnes"],
        valid_from=None,
        valid_to=None,
        as_of=DAY,
        learned_at=DAY,
        verdicts={}
        if verdict is None
        else {
            "tonnes": VerdictResponse(
                verdict=verdict, reason="", model="m", call_id=uuid4(), created_at=DAY
            )
        },
    )


def element(*quotes: EvidenceLink, holds: bool = True) -> ElementLink:
    return ElementLink(
        id=uuid4(),
        holds=holds,
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
    *sources: SourceLink,
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
        sources=[*sources],
        sites=["a.example"],
        origins=[["a.example"]],
    )


def descendants(branch: Branch, kind: str) -> Iterator[Branch]:
    for child in branch.below:
        if child.kind == kind:
            yield child
        yield from descendants(child, kind)


def test_each_conclusion_has_its_proof_and_is_shown_in_full_once() -> None:
    source = page()
    evidence = quote(source)
    pattern = conclusion("analysis", [], row(source, evidence))
    other = conclusion("analysis", [pattern.id], row(source))
    advice = conclusion("advice", [pattern.id, other.id], row(source, evidence))
    chain = build_chain(verification([advice, pattern, other], [], [evidence], source), {})
    analyses = list(descendants(chain.root, "analysis"))
    assert [branch.link.id for branch in analyses] == [pattern.id, other.id, pattern.id]
    assert [branch.is_known for branch in analyses] == [False, False, True]
    assert [len(branch.proof) for branch in (chain.root, *analyses)] == [1, 1, 1, 0]
    assert [each.source for each in chain.root.proof] == [source]
    assert chain.is_small


def test_what_is_broken_below_is_shown_and_the_rest_is_not() -> None:
    source = page()
    sound, broken = quote(source), quote(source, broken=True)
    elements = [element(sound), element(sound, broken, holds=False)]
    root = conclusion("analysis", [each.id for each in elements])
    changed = source.model_copy(update={"holds": False, "breaks": [BREAK]})
    chain = build_chain(verification([root], elements, [sound, broken], changed), {})
    assert [branch.link.id for branch in descendants(chain.root, "node")] == [elements[1].id]
    assert [branch.link.id for branch in descendants(chain.root, "evidence")] == [broken.id]
    assert [branch.link.id for branch in descendants(chain.root, "source")] == [source.id]
    assert chain.breaks == 2


def test_quotes_are_shown_with_the_sentences_around_them() -> None:
    source = page()
    evidence = quote(source)
    root = conclusion("analysis", [], row(source, evidence), row(source))
    around = {evidence.id: ("One. Two e.g. here.\nThree is", "cut off. Four.\nFive.")}
    chain = build_chain(verification([root], [], [evidence], source), {}, around)
    first, second = chain.root.proof
    assert (first.before, first.after) == ("Three is", "cut off.")
    assert (second.before, second.after) == ("", "")


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


def test_what_rests_on_a_retracted_page_is_in_doubt_and_counted() -> None:
    trusted, retracted = page(), page(retracted_at=DAY)
    root = conclusion("analysis", [], row(trusted), row(retracted))
    doubt = ElementDoubt(
        link="analysis",
        id=root.id,
        name=root.name,
        since=DAY,
        source_id=retracted.id,
        url=retracted.url,
        reason="nobody confirms it",
        elements=[],
    )
    other_page = trusted.model_copy(update={"url": "https://b.example"})
    other_row = root.proof[0].model_copy(update={"url": other_page.url})
    other_root = root.model_copy(update={"proof": [other_row, root.proof[1]]})
    result = verification([other_root], [], [], other_page, retracted).model_copy(
        update={"doubts": [doubt]}
    )
    chain = build_chain(result, {})
    assert chain.is_doubted
    assert (chain.pages, chain.pages_retracted, chain.quotes_retracted) == (2, 1, 1)
    assert chain.root.is_doubted
    assert [each.is_doubted for each in chain.root.proof] == [False, True]
    # Of a page with a version that is trusted, nothing is lost.
    both = build_chain(verification([root], [], [], trusted, retracted), {})
    assert (both.pages, both.pages_retracted) == (1, 0)


def test_a_row_that_a_model_has_refused_is_in_doubt() -> None:
    source = page()
    for verdict, is_doubted in (
        ("contradicted", True),
        ("not_stated", True),
        ("supported", False),
        (None, False),
    ):
        evidence = quote(source, verdict=verdict)
        root = conclusion("analysis", [], row(source, evidence))
        chain = build_chain(verification([root], [], [evidence], source), {})
        assert [each.is_doubted for each in chain.root.proof] == [is_doubted]


def test_large_chains_stop_at_their_analyses() -> None:
    source = page()
    rows = [row(source, number=number) for number in range(LARGE_ROWS)]
    analysis = conclusion("analysis", [], *rows)
    advice = conclusion("advice", [analysis.id], row(source))
    chain = build_chain(verification([advice, analysis], [], [], source), {})
    (branch,) = chain.root.below
    assert branch.is_left
    assert not branch.proof
    assert not chain.is_small
    analysis_chain = build_chain(verification([analysis], [], [], source), {})
    assert len(analysis_chain.root.proof) == LARGE_ROWS
    few = conclusion("analysis", [], *rows[:SMALL_ROWS])
    assert build_chain(verification([few], [], [], source), {}).is_small
