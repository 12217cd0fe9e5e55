"""How the model names what a fact rests on."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from pydantic import Field

from shared.graph.grounds import LONGEST_QUOTE, MOST, SHORTEST_QUOTE, Ground
from shared.graph.proof import moments
from shared.tools import Arguments, ToolRefusalError

_DATE: Final = "YYYY, YYYY-MM, YYYY-MM-DD or a full ISO 8601 time"


class EvidenceGiven(Arguments):
    source_url: str = Field(description="Exact address of the page that the quote stands in.")
    quote: str = Field(
        description="What the page says, word for word as it stands there, best one sentence; "
        f"{SHORTEST_QUOTE} to {LONGEST_QUOTE} characters."
    )
    properties: list[str] | None = Field(
        None,
        description="Names of the properties that this quote bears out; without it, all that no other entry names.",
    )
    valid_from: str | None = Field(
        None,
        description=f"From when on that is true, where the page says: {_DATE}. A newer value supersedes an older one.",
    )
    valid_to: str | None = Field(
        None, description="Until when, that year, month or day included, where the page says."
    )


OF_ALL: Final[Any] = Field(
    min_length=1,
    max_length=MOST,
    description="What it rests on. Every property must be borne out by an entry.",
)


def grounds_of(evidence: Sequence[EvidenceGiven]) -> list[Ground]:
    """Raises ToolRefusalError where a date is none."""
    return [
        Ground(
            each.source_url,
            each.quote,
            None if each.properties is None else tuple(dict.fromkeys(each.properties)),
            _moment(moments.beginning, each.valid_from, f"evidence[{index}].validFrom"),
            _moment(moments.end, each.valid_to, f"evidence[{index}].validTo"),
        )
        for index, each in enumerate(evidence)
    ]


def _moment(read: Callable[[str], datetime], text: str | None, where: str) -> datetime | None:
    if text is None:
        return None
    try:
        return read(text)
    except (ValueError, OverflowError) as error:
        raise ToolRefusalError(
            f"{where}: {text[:40]!r} is no date; write {_DATE}, or leave it out."
        ) from error
