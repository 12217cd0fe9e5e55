"""Export of a graph with all its evidence, and import into a new agent.

`exporter` reads the graph in batches and writes JSON Lines; `graphml` and `prov` write these formats. Only JSON Lines
can be imported: `file_reader` parses and checks a file, `importer` writes it.
"""
