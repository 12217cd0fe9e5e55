"""The one place that people's questions are answered from: the api serves these shapes, the command line shows them.

Everything is read for an owner; what belongs to others is as if it were not there. `shapes` needs no database, so that
a client can parse what the api said without one.
"""
