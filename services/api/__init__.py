"""The API service: takes commands over HTTP, answers from PostgreSQL, and serves the web UI.

It consumes no events as a worker does, but follows the whole stream for its SSE clients. It
publishes `configuration.requested` and `answer.requested` on a best-effort basis; the scheduler finds everything
else that it commits. It owns users and their credentials, agents, the read state of the inbox, and
which dead letters are retried or discarded.
"""
