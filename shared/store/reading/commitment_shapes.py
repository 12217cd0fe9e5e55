"""What a conclusion commits itself to, as a frozen model."""

from datetime import date

from shared.store.reading.view import View


class CommitmentView(View):
    """All of it is None in what was concluded before it was asked for, and in notices."""

    confidence: float | None = None
    """0 to 1."""
    horizon: date | None = None
    """The last day on which it holds."""
    invalidation: str | None = None
    """What would prove it wrong."""
    expired: bool = False
    """Its horizon has passed."""
