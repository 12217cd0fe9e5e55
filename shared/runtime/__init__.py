"""What every process is made of: settings, logs, the bus, the actor shell, health.

An actor is a name, handlers and their dependencies; everything that must be right around a handler (heartbeat, retry,
dead letters, publishing, acking, draining) stands here once.
"""
