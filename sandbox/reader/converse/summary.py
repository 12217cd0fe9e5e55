"""The summary of a conversation's older turns: what was asked, and the first sentence of each answer."""

from sandbox.reader.request import ChatRequest
from sandbox.text.sentences import sentences

MAX_CHARACTERS = 3_000
_OWNER, _AGENT = "Owner: ", "Agent: "


def summarize(request: ChatRequest) -> str:
    """What was summarized before comes first; where all of it is too long, the oldest goes."""
    lines = [line for line in request.section("older_turns").splitlines() if line.strip()]
    told = [
        *sentences(request.section("summary_so_far")),
        *(f"The owner said: {_first(line, _OWNER)}" for line in lines if line.startswith(_OWNER)),
        *(_first(line, _AGENT) for line in lines if line.startswith(_AGENT)),
    ]
    kept: list[str] = []
    left = MAX_CHARACTERS
    for sentence in reversed(told):
        left -= len(sentence) + 1
        if left < 0:
            break
        kept.insert(0, sentence)
    return "\n".join(kept)


def _first(line: str, who: str) -> str:
    return next(iter(sentences(line.removeprefix(who))), "")
