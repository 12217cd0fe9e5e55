"""The language of the bus: what is said, on which subject, and who listens.

Stands on nothing. `models` holds the events, `topology` the one stream and its durable consumers,
`provision` makes both, `tail` reads the stream back for people.
"""
