"""The web pages, one module per resource group, as in `services.api.routers`."""
