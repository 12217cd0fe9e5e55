"""Sources: fetched pages, the evidence in them, and retractions."""
