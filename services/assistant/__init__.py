"""The assistant receives: it makes agents of missions, and answers what people write to them.

Consumes `configuration.requested` and `answer.requested`. Emits their `completed` and `failed`.
Owns steps of the kinds configure and converse, which are no iteration's, and what these make: an agent's name,
prompts and first types; answers in conversations.
"""
