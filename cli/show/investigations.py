"""Investigation requests in a terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from cli.show.words import ago
from shared.store.reading.investigation_shapes import InvestigationRequestView


def show_investigations(
    console: Console, found: Sequence[InvestigationRequestView], *, only_open: bool, limit: int
) -> None:
    if not found:
        console.print("Nothing is lacking." if only_open else "Nothing was lacking yet.")
    for each in found:
        console.print(
            f"{_state(each)} [title]{escape(each.objective)}[/]  "
            f"[quiet]lacking in iteration {each.iteration_number}, {ago(each.created_at)}, {each.id}[/]",
            soft_wrap=True,
        )
        console.print(Padding(f"[quiet]{escape(each.reasoning)}[/]", (0, 0, 0, 2), expand=False))
    if len(found) == limit:
        console.print(f"[quiet]The newest {limit}; more with --limit.[/]")


def _state(request: InvestigationRequestView) -> str:
    if request.answered_at is not None:
        return f"[good]answered {ago(request.answered_at)}[/]"
    if request.dropped_at is not None:
        return f"[quiet]dropped {ago(request.dropped_at)}[/]"
    return "[warn]open[/]"
