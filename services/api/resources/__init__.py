"""The resources of the API, each with its reads, its JSON routes and its pages."""
