"""What every request has in common: problem details, limits, ETags, idempotency, metrics."""
