"""The api is where people come in: it takes their commands over HTTP, and answers from Postgres.

Emits no events: what it commits is found by the scheduler. It follows all of them, for those who listen.
Owns agents, what is read in the inbox, and which dead letters are retried or discarded.
There is no sign-in yet: it serves one owner, and should be reached from its own machine only.
"""
