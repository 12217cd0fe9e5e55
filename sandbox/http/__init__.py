"""The sandbox's HTTP face: OpenAI's chat completions and background responses, Tavily, and the levers that tests pull."""
