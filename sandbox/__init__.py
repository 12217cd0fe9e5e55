"""A local stand-in for OpenAI and Tavily over HTTP, answering from a corpus of documents.

It depends on nothing of the product: it offers HTTP interfaces only. Its model answers by fixed rules from the request
alone, without prepared answers, and each response carries a header that names the sandbox.
"""
