"""The Adviser recommends, rarely: it weighs the analyses, and by default advises nothing.

Consumes `analysis.produced`, the only event that wakes it. Emits `advice.produced`, `advice.completed`, `advice.failed`.
Owns steps of kind advise, and with its advice the inbox item and the message in the conversation.
"""
