"""The conversation with an agent: messages, answers and memories."""
