"""The tokens and dollars of an agent's iterations, from the requests that a proxy records in front of a model server."""
