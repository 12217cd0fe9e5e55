"""What became of one attempt."""

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


@dataclass(frozen=True)
class Never:
    """Another attempt cannot mend it; where `stops`, nor can any other delivery to this destination be made."""

    why: str
    status_code: int | None = None
    stops: bool = False


Verdict = Taken | NotNow | Never
