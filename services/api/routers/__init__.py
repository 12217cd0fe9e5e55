"""The HTTP routes, one module per resource group. They call `commands` and `queries`."""
