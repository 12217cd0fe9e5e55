"""What a conclusion commits itself to, in a terminal."""

from rich.markup import escape

from shared.store.reading.commitment_shapes import CommitmentView


def commitment_lines(told: CommitmentView, *, with_confidence: bool = False) -> list[str]:
    """None where it commits itself to nothing: it is older than that, or a notice."""
    lines = []
    if with_confidence and told.confidence is not None:
        lines.append(f"[quiet]Confidence: {told.confidence:.2f}[/]")
    if told.horizon is not None:
        until = f"Holds until {told.horizon}"
        lines.append(f"[warn]Expired: it held until {told.horizon}[/]" if told.expired else until)
    if told.invalidation is not None:
        lines.append(f"[quiet]Proved wrong by: {escape(told.invalidation)}[/]")
    return lines
