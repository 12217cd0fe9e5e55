"""Duplicates and merges in a terminal."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from cli.render.graph import (
    show_distinct,
    show_distinct_pairs,
    show_duplicates,
    show_edge,
    show_merge,
    show_merges,
    show_split,
    show_unmerge,
)
from shared.schemas.base import Page
from shared.schemas.graph import (
    DistinctPairResponse,
    DuplicatePair,
    EdgeDetails,
    MergeResponse,
    NodeRef,
)
from shared.schemas.provenance import AgreementResponse, OtherValueResponse, UpcomingValueResponse
from tests.support.cli.console import printed

ID = UUID("a1b2c3d4-0000-4000-8000-000000000001")
OTHER = UUID("a1b2c3d4-0000-4000-8000-000000000002")
WHEN = datetime(2026, 1, 31, 12, tzinfo=UTC)


def make_merge(**values: Any) -> MergeResponse:
    defaults: dict[str, Any] = {
        "id": ID,
        "type": "Company",
        "kept_id": ID,
        "kept_name": "Nvidia [bold]",
        "merged_id": OTHER,
        "merged_name": "NVIDIA Corp",
        "reason": "One [/] company.",
        "names": 2,
        "evidence": 1,
        "edges": 0,
        "dropped_edges": 0,
        "left_out": {},
        "is_split": False,
        "made_at": WHEN,
        "undone_at": None,
    }
    return MergeResponse(**(defaults | values))


def test_a_merge_is_shown_with_the_command_to_undo_it() -> None:
    output = printed(show_merge, "Chips", make_merge())
    assert (
        "NVIDIA Corp is merged into Nvidia [bold]: 2 names, 1 span of evidence, 0 edges." in output
    )
    assert "vigil node unmerge Chips a1b2c3d4\n" in output
    assert str(ID) not in output
    assert "NVIDIA Corp is restored" in printed(show_unmerge, make_merge(undone_at=WHEN))


def test_distinct_nodes_are_shown_with_the_command_to_undo_it() -> None:
    pair = DistinctPairResponse(
        id=UUID(int=1),
        one=NodeRef(id=ID, type="Company", name="Nvidia [bold]"),
        other=NodeRef(id=OTHER, type="Company", name="NVIDIA Corp"),
        made_at=WHEN,
    )
    output = printed(show_distinct, "Chips", pair)
    assert "Nvidia [bold] and NVIDIA Corp are distinct" in output
    assert f'vigil node distinct "Chips" {ID} {OTHER} --undo' in output
    assert f"Nvidia [bold] {ID}  and  NVIDIA Corp {OTHER}" in printed(show_distinct_pairs, [pair])
    assert "No nodes have been declared distinct" in printed(show_distinct_pairs, [])


def test_merges_are_listed_with_reason_and_state() -> None:
    output = printed(show_merges, [make_merge(), make_merge(kept_name=None, undone_at=WHEN)])
    first, second = output.splitlines()
    assert "NVIDIA Corp → Nvidia [bold]  One [/] company." in first
    assert "undone" not in first
    assert "a node that has since been merged" in second
    assert "undone" in second
    assert printed(show_merges, []) == "No nodes have been merged.\n"


def test_duplicates_are_listed_with_their_ids() -> None:
    pair = DuplicatePair(
        node=NodeRef(id=ID, type="Company", name="Nvidia"),
        other=NodeRef(id=OTHER, type="Company", name="Nvidea [x]"),
        similarity=0.6,
    )
    output = printed(show_duplicates, [pair])
    assert output.startswith("0.60  Nvidia")
    assert all(text in output for text in ("Nvidea [x]", str(ID), str(OTHER), "Company"))
    assert printed(show_duplicates, []) == "No two nodes have similar names.\n"


def make_edge(
    source_id: UUID, target_id: UUID, agreement: dict[str, AgreementResponse] | None = None
) -> EdgeDetails:
    return EdgeDetails(
        id=ID,
        type="owns",
        source_id=source_id,
        source_name="Nvidia [bold]",
        target_id=target_id,
        target_name="Nvidia [bold]",
        properties={"share": 40, "since": 2020, "both": "yes"},
        created_at=WHEN,
        updated_at=WHEN,
        iteration_id=None,
        step_id=None,
        cited_by=[],
        evidence=Page(items=[], next=None),
        agreement=agreement or {},
    )


def test_an_edge_between_merged_nodes_is_shown_as_such() -> None:
    assert "This edge connected nodes that were merged" in printed(show_edge, make_edge(ID, ID))
    assert "merged" not in printed(show_edge, make_edge(ID, OTHER))


def test_each_property_says_how_many_origins_support_it_and_what_others_say() -> None:
    other = OtherValueResponse(value=35, sites=["c.example", "d.example"], as_of=WHEN)
    agreement = {
        "share": AgreementResponse(sites=["a.example"], origins=[["a.example"]], others=[other]),
        "since": AgreementResponse(
            sites=["a.example", "b.example"],
            origins=[["a.example"], ["b.example"]],
            barred=["b.example"],
            others=[],
        ),
        "both": AgreementResponse(
            sites=["a.example", "b.example"], origins=[["a.example", "b.example"]], others=[]
        ),
    }
    output = printed(show_edge, make_edge(ID, OTHER, agreement))
    assert "share: 40  (only a.example)\n" in output
    assert f"c.example, d.example: 35 as of {WHEN:%Y-%m-%d}\n" in output
    assert "since: 2020  (2 origins; since barred: b.example)\n" in output
    assert "both: yes  (only a.example and b.example)\n" in output


def test_contested_upcoming_and_ended_values_are_shown() -> None:
    contested = OtherValueResponse(
        value=35, sites=["c.example", "d.example"], origins=2, as_of=WHEN, contested=True
    )
    upcoming = UpcomingValueResponse(
        value=50, begins=WHEN, evidence_id=ID, url="https://c.example/", quote="It will be 50."
    )
    known = AgreementResponse(
        sites=["a.example"], origins=[["a.example"]], others=[contested], upcoming=[upcoming]
    )
    ended = known.model_copy(update={"others": [], "upcoming": [], "ended": WHEN})
    begins = ended.model_copy(update={"ended": None, "begins": WHEN})
    agreement = {"share": known, "since": ended, "both": begins}
    output = printed(show_edge, make_edge(ID, OTHER, agreement))
    day = f"{WHEN:%Y-%m-%d}"
    assert f"contested by 2 origins, c.example, d.example: 35 as of {day}\n" in output
    assert f"    from {day}: 50\n      “It will be 50.”\n" in output
    assert f"    not valid since {day}\n" in output
    assert f"    valid only from {day}\n" in output


def test_what_has_no_date_is_shown_with_none() -> None:
    other = OtherValueResponse(value=35, sites=["c.example"], as_of=None)
    agreement = {
        "share": AgreementResponse(sites=["a.example"], origins=[["a.example"]], others=[other])
    }
    assert "c.example: 35 date unknown\n" in printed(show_edge, make_edge(ID, OTHER, agreement))


def test_a_split_is_shown_and_listed_as_one() -> None:
    split = make_merge(undone_at=WHEN, is_split=True)
    shown = printed(show_split, split)
    assert f"{split.merged_name} is split off {split.kept_name}" in shown
    assert "To undo this, merge the two nodes" in shown
    listed = printed(show_merges, [split])
    assert "←" in listed
    assert "split off" in listed
    assert "undone" not in listed


def test_properties_that_a_merge_leaves_out_are_told() -> None:
    shown = printed(show_merge, "Chips", make_merge(left_out={"area": "large"}))
    assert "Left out, because the type does not allow it: area" in shown
