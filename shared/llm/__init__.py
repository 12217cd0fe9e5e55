"""The model: one provider, the loop that hands it tools, structured answers. Nothing else imports openai.

Chat completions are the common tongue (OpenAI, llama.cpp, vLLM, Ollama), so only what all of them understand is used.
"""
