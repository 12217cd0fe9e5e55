"""What every service process is built from: settings, logging, bus, consumer, step runner, health endpoints.

Heartbeats, retries, dead letters, publishing, acks and draining are implemented here once for all handlers.
"""
