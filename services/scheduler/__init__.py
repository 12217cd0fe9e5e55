"""The scheduler is the clock: it starts the iterations that are due, and asks again for whatever stands still.

Consumes `iteration.completed`, `iteration.failed`, `configuration.completed`. Emits `iteration.started`, and as reconciler any event that the
state implies and any dead letter whose retry was asked for. Owns an agent's next run and the start of its iterations.
Any number of replicas may run.
"""
