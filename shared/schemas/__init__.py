"""Response models of the API, as pydantic models: the API creates them, the CLI and the web pages read them."""
