"""The event contract: events, subjects, consumers, permissions, and access to the stream.

`models` contains the events, `topology` the stream and its durable consumers, `stream_admin` creates them,
`stream_reader` reads the stream. Imports no other package of Vigil except the leaf modules.
"""
