"""What happened in a simulation: a fault that never occurs tests nothing."""

from dataclasses import dataclass, fields
from typing import Self


@dataclass
class Statistics:
    installations: int = 0
    steps: int = 0
    joins: int = 0
    iterations: int = 0
    commits: int = 0
    batches: int = 0
    entries: int = 0
    calls_sent: int = 0
    assumed_calls: int = 0
    resumed_steps: int = 0
    resolved_again: int = 0
    split_batches: int = 0
    unknown_commits: int = 0
    refusals: int = 0
    lost_leases: int = 0
    late_sends: int = 0
    abandoned_steps: int = 0
    failed_steps: int = 0
    merges: int = 0
    lowered_caps: int = 0
    killed_processes: int = 0
    paused_processes: int = 0
    cut_connections: int = 0
    database_restarts: int = 0
    lost_messages: int = 0
    duplicated_messages: int = 0
    redelivered_messages: int = 0

    def add(self, other: Self) -> None:
        for field in fields(self):
            total = getattr(self, field.name) + getattr(other, field.name)
            setattr(self, field.name, total)

    def __str__(self) -> str:
        return "\n".join(
            f"{getattr(self, field.name):>14,}  {field.name.replace('_', ' ')}"
            for field in fields(self)
        )
