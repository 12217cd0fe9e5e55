"""What makes a graph provable, decided without a database: where a quote stands, what follows from evidence, and seals."""
