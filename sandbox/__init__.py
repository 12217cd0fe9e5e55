"""A local stand-in for OpenAI and Tavily over HTTP, answering from a corpus of documents.

It is an outside service that happens to live here: it speaks HTTP alone and knows nothing of the product. Its model
reads what it is sent and answers from that by plain rules; it holds no prepared answers, and says what it is.
"""
