"""The scheduler starts iterations that are due, republishes events that were missed, and deletes what is old.

Consumes `iteration.completed`, `iteration.failed`, `configuration.completed`. Emits `iteration.started`, and as
reconciler any event that the state implies and any dead letter whose retry was requested. Owns an agent's next run and
the start of its iterations, and the retention of what ended (`pruner`). Any number of replicas may run.
"""
