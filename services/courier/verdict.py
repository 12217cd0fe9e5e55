"""What became of one attempt.

`why` is shown to the owner of the destination, who may be any user: it must not tell what a network that only this
machine reaches looks like. `details` go to the operator's log alone.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Taken:
    """The receiver has it. `status_code` is of HTTP, here and below."""

    status_code: int | None = None


@dataclass(frozen=True)
class NotNow:
    """Tried again later."""

    why: str
    status_code: int | None = None
    asked_seconds: float | None = None
    """The least wait that the receiver asked for."""
    details: str | None = None


@dataclass(frozen=True)
class Never:
    """Another attempt cannot mend it; where `stops`, nor can any other delivery to this destination be made."""

    why: str
    status_code: int | None = None
    stops: bool = False
    details: str | None = None


Verdict = Taken | NotNow | Never
