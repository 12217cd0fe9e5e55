"""The read side of the API and the web UI, one module per resource group."""
