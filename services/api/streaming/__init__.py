"""Streaming: one reader of the event stream per process, its SSE clients, and streamed answers.

The hub follows the stream and keeps its newest events in a replay buffer. Each client has a
position in the stream and is sent what follows it: from the buffer, or, for an older position, from
the stream itself.
"""
