"""`vigil try-model`: tests a model on a fixed mission over a known corpus, and reports what it can do."""
