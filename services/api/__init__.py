"""The api is where people come in: it takes their commands over HTTP, and answers from Postgres.

Consumes no events as the actors do, but follows all of them, for those who listen. Emits `configuration.requested` and
`answer.requested`, as hints; the rest of what it commits is found by the scheduler. Owns users and what they come in
by, agents, what is read in the inbox, and which dead letters are retried or discarded.
"""
