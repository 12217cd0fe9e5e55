"""Chat completions in OpenAI's format, whole and in chunks."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from sandbox.model.request import Answer

CREATED = 0
"""Constant, so that the same request gets the same bytes."""
CHUNK_WORDS = 6
CHARS_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 4
CALL_ID_CHARS = 24


def error_body(
    message: str, kind: str, code: str | None, param: str | None = None
) -> dict[str, Any]:
    """An error in OpenAI's format."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def count_tokens(text: str) -> int:
    """An estimate: four characters per token, rounded up."""
    return math.ceil(len(text) / CHARS_PER_TOKEN)


def completion(
    model: str, request_hash: str, answer: Answer, usage: Mapping[str, int]
) -> dict[str, Any]:
    """The answer as one object."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None, "refusal": None}
    calls = tool_calls(request_hash, answer)
    if calls:
        message["tool_calls"] = calls
    else:
        message["content"] = answer.text
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(answer)}
    return {
        "id": _completion_id(request_hash),
        "object": "chat.completion",
        "created": CREATED,
        "model": model,
        "choices": [choice],
        "usage": dict(usage),
        "system_fingerprint": "sandbox",
    }


def usage_of(messages: list[Any], tools: list[Any], answer: Answer) -> dict[str, int]:
    """Usage: the estimated tokens of the request and the answer."""
    prompt = sum(
        TOKENS_PER_MESSAGE + count_tokens(json.dumps(message, ensure_ascii=False))
        for message in messages
    ) + sum(count_tokens(json.dumps(tool, ensure_ascii=False)) for tool in tools)
    answer_tokens = _answered_tokens(answer)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answer_tokens,
        "total_tokens": prompt + answer_tokens,
    }


def truncate(limit: object, answer: Answer) -> Answer:
    """Cut `answer` off at `limit` tokens, without its calls; unchanged if `limit` is no number."""
    if not isinstance(limit, int) or _answered_tokens(answer) <= limit:
        return answer
    characters = max(limit - TOKENS_PER_MESSAGE, 0) * CHARS_PER_TOKEN
    return Answer(answer.text[:characters], is_cut=True)


def _answered_tokens(answer: Answer) -> int:
    calls = "".join(call.name + call.arguments for call in answer.calls)
    return TOKENS_PER_MESSAGE + count_tokens(answer.text) + count_tokens(calls)


def tool_calls(request_hash: str, answer: Answer) -> list[dict[str, Any]]:
    """Tool calls in OpenAI's format; ids are hashes of the request and the index of the call."""
    return [
        {
            "id": _call_id(request_hash, place),
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for place, call in enumerate(answer.calls)
    ]


def chunks(
    model: str, request_hash: str, answer: Answer, usage: Mapping[str, int] | None
) -> Iterator[dict[str, Any]]:
    """The answer as chunks of a stream; `usage`, if given, comes last without choices."""
    yield _chunk(model, request_hash, {"role": "assistant", "content": "" if answer.text else None})
    for piece in _pieces(answer.text):
        yield _chunk(model, request_hash, {"content": piece})
    for place, call in enumerate(tool_calls(request_hash, answer)):
        function = call["function"]
        opening = {**call, "index": place, "function": {"name": function["name"], "arguments": ""}}
        yield _chunk(model, request_hash, {"tool_calls": [opening]})
        for piece in _pieces(function["arguments"]):
            delta = {"index": place, "function": {"arguments": piece}}
            yield _chunk(model, request_hash, {"tool_calls": [delta]})
    yield _chunk(model, request_hash, {}, _finish(answer))
    if usage:
        last = _chunk(model, request_hash, {})
        yield {**last, "choices": [], "usage": dict(usage)}


def _chunk(
    model: str, request_hash: str, delta: dict[str, Any], finish: str | None = None
) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {
        "id": _completion_id(request_hash),
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": model,
        "choices": [choice],
        "system_fingerprint": "sandbox",
    }


def _pieces(text: str) -> Iterator[str]:
    parts = text.split(" ")
    for start in range(0, len(parts), CHUNK_WORDS):
        piece = " ".join(parts[start : start + CHUNK_WORDS])
        if piece or start:
            yield piece if start == 0 else f" {piece}"


def _finish(answer: Answer) -> str:
    if answer.is_cut:
        return "length"
    return "tool_calls" if answer.calls else "stop"


def _completion_id(request_hash: str) -> str:
    return f"chatcmpl-{request_hash[:24]}"


def _call_id(request_hash: str, place: int) -> str:
    digest = hashlib.sha256(f"{request_hash}\n{place}".encode()).hexdigest()
    return f"call_{digest[:CALL_ID_CHARS]}"
