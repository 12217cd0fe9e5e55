"""The HTTP interfaces: OpenAI's chat completions, responses and embeddings, Tavily, and /control for tests."""
