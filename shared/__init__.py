"""What every service stands on: events, store, graph, llm, search, runtime."""
