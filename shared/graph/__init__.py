"""What an agent knows: typed nodes and edges, how they are written, searched, cited, and shown to a phase.

Writers (`types`, `nodes`, `edges`, `conclusions`) work in the caller's transaction and raise ToolRefusalError.
`tools` hands them to the model, `context` renders what a phase sees, `read` serves the api and the command line,
`canonical` tells whether two agents know the same.
"""
