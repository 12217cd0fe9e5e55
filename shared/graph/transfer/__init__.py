"""A graph with all that it rests on, written out for others and read back.

`content` reads it in batches; `json_lines`, `graphml` and `prov` write it in the format of that name. Only JSON Lines can be
read back: `reading` takes a file apart, `arriving` gives it to a new agent.
"""
