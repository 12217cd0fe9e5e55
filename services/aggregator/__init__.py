"""The aggregator joins: it knows what an iteration waits for, and starts the next stage when the last step has ended.

Consumes `plan.*`, `query.completed|failed`, `insight.completed|failed`, `advice.completed|failed`. Emits
`query.requested` (for data that Analyzers lacked), `insight.requested`, `analysis.produced`, `iteration.completed`,
`iteration.failed`. Owns the iteration's end and its stages (except the first, which a plan with queries ends), and the
steps of later rounds. `reducer` decides, `transitions` loads and writes, `deadlines` is the timer.
"""
