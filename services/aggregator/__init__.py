"""The aggregator joins: it knows what an iteration waits for, and says what comes next when the last part has come.

Consumes `plan.*`, `query.completed|failed`, `insight.completed|failed`, `advice.completed|failed`.
Emits `query.requested` (of what Analyzers lacked), `insight.requested`, `analysis.produced`, `iteration.completed`,
`iteration.failed`. Owns the iteration's end and its stage, but for the first, which a plan with queries ends; and the
steps of the rounds after the plan's. `join` and `rounds` decide, `settle` loads and saves, `deadlines` are ticks it gives
itself.
"""
