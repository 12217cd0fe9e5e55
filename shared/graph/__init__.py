"""The knowledge graph of an agent: typed nodes and edges, their evidence, and the conclusions drawn from them.

Writers (`types`, `nodes`, `edges`, `conclusions`) work in the caller's transaction and raise ToolRefusalError.
`tools` exposes the graph to models, `context` renders it for prompts, `retrieval` searches it, `verification` checks
it, `transfer` exports and imports it.
"""
