"""The model: one provider, the loop that hands it tools, structured answers. Nothing else imports openai.

Chat completions are the common tongue (OpenAI, llama.cpp, vLLM, Ollama), so only what all of them understand is used.
OpenAI's background mode is the other choice: it alone lets a crash lose no answer that is under way.
"""
