"""Iterations per second by replicas, the limits of the engines, and the sizes of fleets computed from them."""
