"""How busy the actors are, as a table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from cli.topping import Load

_HEADS = ("Replicas", "Lag", "In flight", "Idle slots", "Per second", "Leases", "Workers")


def load_table(loads: Sequence["Load"]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("Actor", style="agent")
    for head in _HEADS:
        table.add_column(head, justify="right")
    for load in loads:
        table.add_row(load.actor, *_cells(load))
    return table


def _cells(load: "Load") -> list[str]:
    lapsed = f" [bad]+{load.lapsed_leases} lapsed[/]" if load.lapsed_leases else ""
    return [
        str(load.replicas) if load.replicas else "[bad]0[/]",
        _number(load.lag),
        _number(load.in_flight),
        _number(load.idle_slots),
        "?" if load.per_second is None else f"{load.per_second:.1f}",
        f"{load.leases}{lapsed}",
        str(load.workers),
    ]


def _number(value: int | None) -> str:
    return "[bad]no consumer[/]" if value is None else str(value)
