"""The Adviser decides whether the analyses warrant advice; by default they do not.

Consumes `analysis.produced`, the only event that starts it. Emits `advice.produced`, `advice.completed`,
`advice.failed`. Owns steps of kind advise, and with its advice the inbox item and the message in the conversation.
"""
