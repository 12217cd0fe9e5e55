"""A simulator of the loop: leases, fences, group commit, budget slices, calls in flight and the journal of graphs.

Workers, aggregators, bus, provider and database are models; the protocol between them is the one that the product is built
to. Each simulated installation is made from a seed and runs some thousand steps; everything that can fail, fails.
`invariants` has what must hold, `breakages` what the simulator finds in broken builds. `python -m
tests.support.simulation --help` runs many.
"""
