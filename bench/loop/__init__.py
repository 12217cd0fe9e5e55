"""The cost of an iteration: shipped services and engines, with a model and a search that answer at once."""
