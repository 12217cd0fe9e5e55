"""What an iteration costs: the shipped actors on the shipped engines, with a model and a search that answer at once."""
