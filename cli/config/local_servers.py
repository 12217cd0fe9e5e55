"""Model servers that already run on this machine, at their usual ports."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import httpx
from pydantic import BaseModel, ValidationError

LOCAL_SERVERS: Final[Mapping[str, int]] = {
    "Ollama": 11434,
    "llama.cpp": 8080,
    "LM Studio": 1234,
    "vLLM": 8000,
}
TIMEOUT_SECONDS: Final = 0.5
MAX_BYTES: Final = 1_000_000
"""A longer list of models is not read: something else runs at that port."""


@dataclass(frozen=True)
class LocalServer:
    name: str
    url: str
    """Its base URL."""
    models: tuple[str, ...]


class _Model(BaseModel):
    id: str


class _Models(BaseModel):
    data: list[_Model]


def find_local_servers(ports: Mapping[str, int] = LOCAL_SERVERS) -> list[LocalServer]:
    """The servers that list at least one model within TIMEOUT_SECONDS."""
    with ThreadPoolExecutor(len(ports)) as pool:
        return [
            server
            for found in pool.map(_list_models, *zip(*ports.items(), strict=True))
            for server in found
        ]


def _list_models(name: str, port: int) -> list[LocalServer]:
    url = f"http://127.0.0.1:{port}/v1"
    try:
        # Neither certificates nor proxies are needed for this machine.
        with (
            httpx.Client(verify=False, trust_env=False, timeout=TIMEOUT_SECONDS) as client,
            client.stream("GET", f"{url}/models") as response,
        ):
            content = b"".join(_first_bytes(response))
        models = tuple(model.id for model in _Models.model_validate_json(content).data)
    except (httpx.HTTPError, ValidationError):
        return []
    return [LocalServer(name, url, models)] if models else []


def _first_bytes(response: httpx.Response) -> Iterator[bytes]:
    read = 0
    for chunk in response.iter_bytes():
        yield chunk
        read += len(chunk)
        if read > MAX_BYTES:
            return
