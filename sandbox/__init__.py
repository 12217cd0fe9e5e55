"""A local stand-in for OpenAI and Tavily over HTTP, answering from a corpus of documents.

It depends on nothing of the product: it offers HTTP interfaces only. Its model reads labelled figures and no prose, and
each response carries a header that names the sandbox.
"""
