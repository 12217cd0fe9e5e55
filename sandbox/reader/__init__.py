"""The stand-in model. It reads what it is sent and answers from that: pure functions from a request to an answer.

Nothing here knows a corpus or a mission. Another corpus or mission gives another graph; the same request the same answer.
One answer alone, which types an agent begins with, looks into the corpus: through the search that it is given.
"""

from sandbox.reader.phase import Phase, phase_of, read
from sandbox.reader.request import ChatRequest

__all__ = ["ChatRequest", "Phase", "phase_of", "read"]
