"""A request is split from its context and restored without changes."""

from hashlib import sha256

import pytest

from shared.llm import phase_run_store

CONTEXT = "2 nodes\n- [node:1] “Ghana”"


def request_of(content: str) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": content}], "tools": ["queryGraph"]}


@pytest.mark.parametrize(
    "content",
    [
        f"Mission\n{CONTEXT}\nTask",
        CONTEXT,
        f"{CONTEXT}{CONTEXT}",
        f"{CONTEXT[:4]}{CONTEXT}",
    ],
)
def test_a_split_request_is_restored(content: str) -> None:
    request = request_of(content)
    short, digest = phase_run_store.split_context(request, CONTEXT)
    assert digest == sha256(CONTEXT.encode()).digest()
    assert phase_run_store.is_split(short)
    assert "messages" not in short, "an older version would send the request without its messages"
    assert phase_run_store.restore_request(short, CONTEXT) == request


@pytest.mark.parametrize("context", ["", CONTEXT.replace("Ghana", "Togo")])
def test_a_request_without_the_context_is_not_split(context: str) -> None:
    request = request_of(f"Mission\n{CONTEXT}\nTask")
    assert phase_run_store.split_context(request, context) == (request, None)
    assert not phase_run_store.is_split(request)
