"""The Analyzer draws conclusions: from one insight and the enriched graph to analyses, or to what data is missing.

Consumes `insight.requested`. Emits `insight.completed`, `insight.failed`. Owns steps of kind insight.
"""
