"""The rule-based model. It reads a request and answers from it: pure functions from a request to an answer.

The modules know no corpus and no mission; the same request gets the same answer. Only the types that a new agent
starts with depend on the corpus, through the search function that is passed in.
"""

from sandbox.model.request import ChatRequest
from sandbox.model.router import Phase, answer_request, phase_of

__all__ = ["ChatRequest", "Phase", "answer_request", "phase_of"]
