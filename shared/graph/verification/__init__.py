"""Verification: proves every element and conclusion of the graph from its sources, without a model.

`checks` examines rows and is pure, `loader` loads rows in batches, and `verifier` checks the whole graph page by
page, or one conclusion down to its sources.
"""
