"""The token usage in an answer, under the names that servers give it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from shared.llm.answer_errors import Usage, excerpt_of

TOKEN_COUNT_LIMIT: Final = 10**9
_CACHED: Final = re.compile(r"cach", re.IGNORECASE)
_NOT_READ: Final = re.compile(r"miss|writ|creat|output|stor|ttl", re.IGNORECASE)


_OTHER_NAMES: Final = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
}
"""Some servers use the names of the other interface."""


def parse_usage(
    body: Any, input_name: str = "prompt_tokens", output_name: str = "completion_tokens"
) -> Usage:
    """Parses `usage` and `service_tier` of an answer. Counts are integers from 0 to below 10^9; if one is not, both are
    ignored.
    """
    body = body if isinstance(body, dict) else {}
    raw, tier = raw_usage(body), body.get("service_tier")
    if isinstance(raw, dict):
        input_name, output_name = (
            _OTHER_NAMES[name] if name not in raw and _OTHER_NAMES[name] in raw else name
            for name in (input_name, output_name)
        )
        unusable = [name for name in (input_name, output_name) if not is_count(raw.get(name))]
        if not unusable:
            read, written = int(raw[input_name]), int(raw[output_name])
            # Anthropic counts what is read from its cache, or written to it, beside the input. Other servers use the names
            # for a part of the input, so a smaller count is taken for one.
            beside: list[Any] = [
                raw.get(f"cache_{what}_input_tokens") for what in ("read", "creation")
            ]
            apart = sum(int(count) for count in beside if is_count(count))
            input_tokens = read + apart if apart > read else read
            cached = max(_cached_tokens(raw, TOKEN_COUNT_LIMIT), default=0)
            if read < cached and raw.get("total_tokens") == read + cached + written:
                input_tokens = read + cached  # some gateways subtract them
            details = [each for each in raw.values() if isinstance(each, dict)]
            in_cache = sum(
                int(count)
                for counts in (raw, *details)
                for name, count in counts.items()
                if "cache" in name and is_count(count)
            )
            of_output = raw.get(f"{output_name}_details")
            reasoning: Any = (
                of_output.get("reasoning_tokens") if isinstance(of_output, dict) else None
            )
            total: Any = raw.get("total_tokens")
            beside_output = int(total) - input_tokens - written if is_count(total) else 0
            if is_count(reasoning) and (reasoning > written or reasoning == beside_output):
                written += int(reasoning)  # some servers count it beside the output
            elif not in_cache:
                written += max(beside_output, 0)
            return Usage(
                input_tokens,
                written,
                max(_cached_tokens(raw, input_tokens), default=0),
                int(reasoning) if is_count(reasoning) and reasoning <= written else 0,
                tier if isinstance(tier, str) else None,
                is_missing=not input_tokens and not written,
                read_tokens=read + in_cache,
            )
        reason = f"{unusable[0]} is {excerpt_of(raw.get(unusable[0]))}"
    else:
        reason = "it sent none" if raw is None else f"it is {excerpt_of(raw)}"
    return Usage(fault=f"the server's usage is not usable: {reason}", is_missing=raw is None)


def raw_usage(body: Any) -> Any:
    """The usage of an answer or of a chunk, wherever the server puts it; None if it sends none.

    Moonshot streams it in the choice of the last chunk, Groq in `x_groq`.
    """
    if not isinstance(body, dict):
        return None
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else choices
    places = [body, body.get("x_groq"), choice]
    if isinstance(choice, dict):
        places += [choice.get("delta"), choice.get("message")]
    found = (each.get("usage") for each in places if isinstance(each, dict))
    return next((usage for usage in found if usage is not None), None)


NO_USAGE: Final = parse_usage(None)


def _cached_tokens(usage: Mapping[str, Any], most: int, depth: int = 0) -> Iterator[int]:
    """The counts of tokens that were read from a cache.

    Providers name them differently: `prompt_tokens_details.cached_tokens`, `prompt_cache_hit_tokens`,
    `cache_read_input_tokens` and others.
    """
    for name, value in usage.items():
        if isinstance(value, dict) and depth < 2 and not _NOT_READ.search(name):
            yield from _cached_tokens(value, most, depth + 1)
        elif _CACHED.search(name) and not _NOT_READ.search(name) and is_count(value):
            yield int(value) if value <= most else 0


def is_count(value: Any) -> bool:
    """Whether a server's value is a number of tokens: a whole number from 0 to below 10^9."""
    is_integer = isinstance(value, int | float) and bool(value == value // 1)
    return is_integer and not isinstance(value, bool) and 0 <= value < TOKEN_COUNT_LIMIT
