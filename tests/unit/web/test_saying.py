"""What pages say of a thing, property by property."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from services.api.web.presenters.provenance import property_provenance
from shared.schemas.provenance import ClaimView, EvidenceView

AT = datetime(2026, 1, 1, tzinfo=UTC)


def quote(*, retracted: bool = False, **claims: tuple[Any, bool]) -> EvidenceView:
    """Each claim is a value and whether it holds."""
    return EvidenceView(
        id=uuid4(),
        source_id=uuid4(),
        url="https://press.example/",
        title=None,
        published=None,
        fetched_at=AT,
        retracted_at=AT if retracted else None,
        first_byte=0,
        end_byte=4,
        quote="Said",
        claims=[
            ClaimView(property=name, value=value, holds=holds)
            for name, (value, holds) in claims.items()
        ],
        valid_from=None,
        valid_to=None,
        as_of=AT,
        learned_at=AT,
    )


def test_what_holds_stands_above_what_is_superseded() -> None:
    newer, older = quote(tonnes=(90, True)), quote(tonnes=(40, False))
    [tonnes] = property_provenance({"tonnes": 90}, [newer, older]).properties
    assert [said.quote for said in tonnes.holding] == [newer]
    assert [said.claim.value for said in tonnes.superseded] == [40]


def test_another_page_that_says_the_same_bears_it_out_unless_it_is_retracted() -> None:
    same, gone = quote(tonnes=(90, False)), quote(retracted=True, tonnes=(90, False))
    [tonnes] = property_provenance(
        {"tonnes": 90}, [quote(tonnes=(90, True)), same, gone]
    ).properties
    assert [said.quote for said in tonnes.holding][1:] == [same]
    assert [said.quote for said in tonnes.superseded] == [gone]


def test_a_quote_without_claims_says_that_the_thing_is() -> None:
    told = quote()
    found = property_provenance({"old": 1}, [told])
    assert found.plain == [told]
    [old] = found.properties
    assert (old.holding, old.superseded) == ([], [])


def test_what_nothing_holds_any_more_is_told_still() -> None:
    [gone] = property_provenance({}, [quote(retracted=True, tonnes=(4, False))]).properties
    assert (gone.name, gone.value, len(gone.superseded)) == ("tonnes", None, 1)
