"""The sandbox's HTTP face: OpenAI's chat completions, Tavily's search, and the levers that tests pull."""
