"""The Observer plans an iteration: what the graph lacks (queries) and which patterns it shows (insights).

Consumes `iteration.started`. Emits `plan.produced`, `plan.failed`, `query.requested`. Owns steps of kind observe, the
iteration's plan, and the steps of the plan. A plan with queries ends the iteration's first stage.
"""
