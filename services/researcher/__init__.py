"""The Researcher answers one query: it searches the web, then writes the results into the graph.

Consumes `query.requested`. Emits `query.completed`, `query.failed`. Owns steps of kind query. Two phases with separate
tools: acquisition reads the web and cannot write, construction writes and cannot search.
"""
