"""The assistant service: configures agents from missions, and answers messages of their owners.

Consumes `configuration.requested` and `answer.requested`. Emits their `completed` and `failed`.
Owns the agent tasks (steps without iteration) of the kinds configure and converse, and their
results: an agent's name, prompts and first types, and answers in conversations.
"""
