"""The Analyzer turns one insight and the enriched graph into analyses, or reports which data is missing.

Consumes `insight.requested`. Emits `insight.completed`, `insight.failed`. Owns steps of kind insight.
"""
