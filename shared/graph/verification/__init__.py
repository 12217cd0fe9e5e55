"""Whether what the graph says can be proved, found out by a program and without a model.

`checks` decides, from rows alone; `load` fetches rows in batches; `walk` follows one conclusion down to its pages, and
`sweep` looks at everything, page by page.
"""
