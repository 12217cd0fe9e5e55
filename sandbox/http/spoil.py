"""What a model may get wrong in an answer that arrives whole."""

from collections.abc import Iterable

from sandbox.http.faults import FaultKind
from sandbox.reader.answer import Answer, ToolCall

UNKNOWN_TOOL = "noSuchTool"
WRONG_ARGUMENTS = '{"noSuchArgument":true}'
BROKEN_JSON = '{"broken'


def spoiled(answer: Answer, kinds: Iterable[FaultKind], offered: Iterable[str]) -> Answer:
    """The answer with each of these faults in it."""
    for kind in kinds:
        if kind is FaultKind.MALFORMED_JSON:
            answer = _with_broken_json(answer)
        elif kind is FaultKind.UNKNOWN_TOOL:
            answer = Answer(calls=(ToolCall(UNKNOWN_TOOL, "{}"),))
        elif kind is FaultKind.WRONG_ARGUMENTS:
            name = answer.calls[0].name if answer.calls else min(offered, default=UNKNOWN_TOOL)
            answer = Answer(calls=(ToolCall(name, WRONG_ARGUMENTS),))
    return answer


def _with_broken_json(answer: Answer) -> Answer:
    if answer.calls:
        return Answer(answer.text, tuple(ToolCall(call.name, BROKEN_JSON) for call in answer.calls))
    return Answer(
        answer.text[: len(answer.text) // 2] if answer.text.startswith("{") else BROKEN_JSON
    )
