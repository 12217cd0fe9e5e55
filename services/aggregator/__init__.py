"""The aggregator joins: it knows what an iteration waits for, and says what comes next when the last part has come.

Consumes `plan.*`, `query.completed|failed`, `insight.completed|failed`, `advice.completed|failed`.
Emits `insight.requested`, `analysis.produced`, `iteration.completed`, `iteration.failed`.
Owns the iteration's stage and end. `join` decides, `settle` loads and saves, `deadlines` are ticks it gives itself.
"""
