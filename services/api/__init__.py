"""The api is where people come in: it takes their commands over HTTP, and answers from Postgres.

Consumes and emits no events: what it commits is found by the scheduler. Owns agents and what is read in the inbox.
There is no sign-in yet: it serves one owner, and should be reached from its own machine only.
"""
