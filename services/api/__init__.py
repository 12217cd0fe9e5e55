"""The api is where people come in: it takes their commands over HTTP, and answers from Postgres.

Consumes no events. Emits `configuration.requested` and `answer.requested`, as hints; the rest of what it commits is found by the
scheduler. Owns agents, what is read in the inbox, and
which dead letters are retried or discarded.
There is no sign-in yet: it serves one owner, and should be reached from its own machine only.
"""
