"""The Observer plans: it looks at the graph and says what is not known (queries) and what shows a pattern (insights).

Consumes `iteration.started`. Emits `plan.produced`, `plan.failed`, `query.requested`.
Owns steps of kind observe, the iteration's plan, and the steps that the plan asks for. A plan with queries ends the
iteration's first stage.
"""
