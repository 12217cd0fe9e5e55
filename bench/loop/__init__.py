"""The cost of an iteration: shipped actors and engines, with a model and a search that answer at once."""
