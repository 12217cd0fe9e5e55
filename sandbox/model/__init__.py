"""The model: pure functions from a request to an answer, which reads labelled figures and lists, and no prose.

The same request gets the same answer. What it knows of the World Factbook's labels is data, in `sheets`.
"""

from sandbox.model.request import ChatRequest
from sandbox.model.router import Phase, answer_request, phase_of

__all__ = ["ChatRequest", "Phase", "answer_request", "phase_of"]
