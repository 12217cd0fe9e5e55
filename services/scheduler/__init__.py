"""The scheduler starts iterations that are due, and republishes events that were missed.

Consumes `iteration.completed`, `iteration.failed`, `configuration.completed`. Emits `iteration.started`, and as
reconciler any event that the state implies and any dead letter whose retry was requested. Owns an agent's next run and
the start of its iterations. Any number of replicas may run.
"""
