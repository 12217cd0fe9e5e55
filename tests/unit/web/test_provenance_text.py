"""The provenance of each property of an element."""

from typing import Any

from services.api.resources.graph.elements import property_provenance
from shared.schemas.provenance import ClaimResponse, EvidenceResponse
from tests.support import responses


def quote(*, retracted: bool = False, **claims: tuple[Any, bool]) -> EvidenceResponse:
    """Each claim is a pair: its value and whether it holds."""
    made = [
        ClaimResponse(property=name, value=value, holds=holds)
        for name, (value, holds) in claims.items()
    ]
    return responses.quote(*made, retracted_at=responses.START if retracted else None)


def test_claims_that_hold_are_separated_from_superseded_ones() -> None:
    newer, older = quote(tonnes=(90, True)), quote(tonnes=(40, False))
    [tonnes] = property_provenance({"tonnes": 90}, [newer, older]).properties
    assert [statement.quote for statement in tonnes.holding] == [newer]
    assert [statement.claim.value for statement in tonnes.superseded] == [40]


def test_an_equal_claim_of_another_page_holds_too_unless_it_is_retracted() -> None:
    same, retracted = quote(tonnes=(90, False)), quote(retracted=True, tonnes=(90, False))
    [tonnes] = property_provenance(
        {"tonnes": 90}, [quote(tonnes=(90, True)), same, retracted]
    ).properties
    assert [statement.quote for statement in tonnes.holding][1:] == [same]
    assert [statement.quote for statement in tonnes.superseded] == [retracted]


def test_a_quote_without_claims_is_evidence_of_the_element_only() -> None:
    plain_quote = quote()
    provenance = property_provenance({"old": 1}, [plain_quote])
    assert provenance.plain == [plain_quote]
    [old] = provenance.properties
    assert (old.holding, old.superseded) == ([], [])


def test_a_property_without_a_holding_claim_is_still_shown() -> None:
    [tonnes] = property_provenance({}, [quote(retracted=True, tonnes=(4, False))]).properties
    assert (tonnes.name, tonnes.value, len(tonnes.superseded)) == ("tonnes", None, 1)
