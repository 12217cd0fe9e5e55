"""What the API answers with, as pydantic models: the API makes them, the CLI and the window read them."""
