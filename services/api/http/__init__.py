"""HTTP concerns of every request: problem details, limits, ETags, idempotency, metrics."""
