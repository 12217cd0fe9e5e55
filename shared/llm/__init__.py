"""Language models: providers, phase runs, the tool loop and structured answers. Only this package imports openai.

Chat completions are the common interface (OpenAI, llama.cpp, vLLM, Ollama), and only what all of these servers support is
used. The alternative is OpenAI's background mode, with which no answer in progress is lost in a crash.
"""
