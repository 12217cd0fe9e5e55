"""The Researcher fills gaps: it searches the web for one query, then writes what it found into the graph.

Consumes `query.requested`. Emits `query.completed`, `query.failed`. Owns steps of kind query.
Two phases with tools of their own: acquisition sees the web and cannot write, construction writes and cannot search.
"""
