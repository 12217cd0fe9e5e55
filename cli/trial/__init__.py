"""`vigil try-model`: a model is tried on a fixed mission over a known corpus, and a report says what it can do."""
