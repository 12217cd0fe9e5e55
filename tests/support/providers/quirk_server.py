"""A model server with one quirk: `respond` of `tests.support.model_server`."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cli.trial.conformance import WORD
from tests.support.model_server import Connection, events
from tests.support.providers.quirks import Quirk

Json = dict[str, Any]
MISSING: Final = object()
USAGE: Final = {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020}


@dataclass
class QuirkServer:
    """Plays a model that calls the tool twice and then answers, as a server with the quirk passes it on."""

    quirk: Quirk
    requests: int = 0

    async def __call__(self, connection: Connection) -> None:
        self.requests += 1
        body = connection.body
        for rule in self.quirk.refuse:
            if self.applies(rule, body):
                refusal = rule["body"]
                text = refusal if isinstance(refusal, str) else json.dumps(refusal)
                await connection.head(rule.get("status", 400), kind="application/json")
                await connection.send(text.encode())
                return
        completion = self.completion(body)
        streams = connection.streams or self.quirk.answer.get("always_streams", False)
        if streams and not self.quirk.answer.get("never_streams", False):
            await connection.head(kind="text/event-stream")
            await connection.send(self.stream(completion))
        else:
            await connection.head(kind="application/json")
            await connection.send(json.dumps(completion).encode())

    def applies(self, rule: Mapping[str, Any], body: Json) -> bool:
        """Whether the request meets all conditions of `rule`."""
        if self.requests % rule.get("every", 1):
            return False
        return all(_meets(condition, body) for condition in rule.get("when", ()))

    def completion(self, body: Json) -> Json:
        answer = self.quirk.answer
        turn = sum(message["role"] == "tool" for message in body["messages"])
        if body.get("tools") and turn < 2 and body.get("tool_choice") != "none":
            message, finish = self.calling(turn), "tool_calls"
        elif body.get("response_format") or self.quirk.request == "structured":
            message, finish = {"role": "assistant", "content": json.dumps({"word": WORD})}, "stop"
        else:
            message, finish = {"role": "assistant", "content": f"The word is {WORD}."}, "stop"
        usage = {**USAGE, **answer.get("usage", {})}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        completion = {"id": "c", "object": "chat.completion", "choices": [choice], "usage": usage}
        if answer.get("when", "") in ("", "calls" if message.get("tool_calls") else "text"):
            self.alter(completion, body)
        return completion

    def calling(self, turn: int) -> Json:
        function = {"name": "readNote", "arguments": json.dumps({"number": str(turn + 1)})}
        call = {"id": f"call_{turn}abc", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    def alter(self, completion: Json, body: Json) -> None:
        answer = self.quirk.answer
        [choice] = completion["choices"]
        message = choice["message"]
        for call in message.get("tool_calls", ()):
            call |= answer.get("call", {})
            call["function"] |= answer.get("function", {})
            if "id" in answer:
                call["id"] = answer["id"].format(n=self.requests)
            if "name" in answer:
                call["function"]["name"] = answer["name"].format(name="readNote")
            if answer.get("arguments_as_object"):
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        if message.get("tool_calls"):
            message |= answer.get("message", {})
        if "written" in answer and message.get("tool_calls"):
            [call] = message.pop("tool_calls")
            number = json.loads(call["function"]["arguments"])["number"]
            message["content"] = answer["written"].replace("NUMBER", number)
            choice["finish_reason"] = "stop"
        if answer.get("prose_if_forced") and body.get("tool_choice") == "required":
            message |= {"content": answer["prose_if_forced"], "tool_calls": []}
        if "text" in answer and not message.get("tool_calls"):
            message["content"] = answer["text"]
        choice |= answer.get("choice", {})
        completion |= answer.get("top", {})
        if "usage_in" in answer:
            _move_usage(completion, answer["usage_in"])

    def stream(self, completion: Json) -> bytes:
        """The completion in chunks: reasoning, text and arguments in pieces."""
        answer = self.quirk.answer
        more = {k: v for k, v in completion.items() if k not in ("choices", "usage", "object")}
        [choice] = completion["choices"]
        chunks: list[Any] = [
            {**_with(delta), "object": "chat.completion.chunk"}
            for delta in _deltas(choice["message"])
        ]
        rest = {k: v for k, v in choice.items() if k != "message"}
        if answer.get("has_end", True):
            chunks.append({"choices": [{**rest, "delta": {}}]})
        if "usage" in completion:
            chunks.append({"choices": [], "usage": completion["usage"]})
        chunks[-2] = {**more, **chunks[-2]} if len(chunks) > 1 else chunks[-2]
        return events(*chunks)


def _move_usage(completion: Json, place: str) -> None:
    """Moves the usage out of the top level."""
    [choice] = completion["choices"]
    if place == "x_groq":
        completion["x_groq"] = {}
    places = {"choice": choice, "message": choice["message"], "x_groq": completion.get("x_groq")}
    places[place]["usage"] = completion.pop("usage")


def _with(delta: Json) -> Json:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def _deltas(message: Json) -> Iterator[Json]:
    yield {"role": "assistant"}
    for name, value in message.items():
        if name in ("role", "tool_calls"):
            continue
        if isinstance(value, str):
            middle = len(value) // 2
            yield {name: value[:middle]}
            yield {name: value[middle:]}
        else:
            yield {name: value}
    for index, call in enumerate(message.get("tool_calls") or ()):
        arguments = call["function"]["arguments"]
        if not isinstance(arguments, str):
            yield {"tool_calls": [{**call, "index": index}]}
            continue
        opening = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        yield {"tool_calls": [opening]}
        for piece in (arguments[:5], arguments[5:]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def values_at(value: Any, path: Sequence[str]) -> Iterator[Any]:
    """All values at `path`. A list has the values of its items; MISSING stands for each that is not there."""
    if not path:
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from values_at(each, path)
    elif isinstance(value, dict):
        yield from values_at(value[path[0]], path[1:]) if path[0] in value else [MISSING]
    else:
        yield MISSING


def find(body: Json, path: str) -> list[Any]:
    """The values at `path` of a request. It can begin with `callers` (messages with calls), `calls` or `keywords`."""
    callers = [each for each in body["messages"] if each.get("tool_calls")]
    calls = [call for each in callers for call in each["tool_calls"]]
    return list(values_at({**body, "callers": callers, "calls": calls}, path.split(".")))


def _meets(condition: Mapping[str, Any], body: Json) -> bool:
    values = find(body, condition["path"])
    match condition:
        case {"missing": True}:
            return any(value is MISSING for value in values)
        case {"present": True}:
            return any(value is not MISSING for value in values)
        case {"equals_null": True}:
            return None in values
        case {"equals": expected}:
            return expected in values
        case {"differs": expected}:
            return any(value != expected for value in values)
        case {"unlike": pattern}:
            return any(not re.fullmatch(pattern, str(value)) for value in values)
        case {"contains": text}:
            return any(text in json.dumps(value) for value in values if value is not MISSING)
        case {"above": number}:
            return any(value is not MISSING and value > number for value in values)
    raise ValueError(f"unknown condition: {condition}")
