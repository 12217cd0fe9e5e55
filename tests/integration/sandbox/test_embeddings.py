"""The sandbox's embeddings, requested with OpenAI's client."""

import httpx
import openai
import pytest
from openai import AsyncOpenAI

from tests.support.sandbox.server import post_control, read_meter

EMBEDDING_MODEL = "sandbox-embedder"


async def test_texts_become_vectors_of_the_requested_length(url: str, model: AsyncOpenAI) -> None:
    response = await model.embeddings.create(
        model=EMBEDDING_MODEL, input=["gold", "copper"], dimensions=64
    )
    assert [(embedding.index, len(embedding.embedding)) for embedding in response.data] == [
        (0, 64),
        (1, 64),
    ]
    assert response.usage.prompt_tokens == response.usage.total_tokens == 3
    meter = await read_meter(url)
    assert (meter["billed"]["embedding"], meter["usd"]) == (1, "0.00000006")


async def test_the_base64_and_float_encodings_have_equal_values(model: AsyncOpenAI) -> None:
    base64_response = await model.embeddings.create(
        model=EMBEDDING_MODEL, input="gold mines", dimensions=8
    )
    float_response = await model.embeddings.create(
        model=EMBEDDING_MODEL, input="gold mines", dimensions=8, encoding_format="float"
    )
    assert base64_response.data[0].embedding == pytest.approx(
        float_response.data[0].embedding, abs=1e-6
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"input": []}, "`input`"),
        ({"input": [""]}, "`input`"),
        ({"input": "a", "dimensions": 0}, "`dimensions`"),
    ],
)
async def test_invalid_input_is_rejected(url: str, params: dict[str, object], message: str) -> None:
    headers = {"authorization": "Bearer any"}
    async with httpx.AsyncClient(headers=headers) as client:
        response = await client.post(
            f"{url}/v1/embeddings", json={"model": EMBEDDING_MODEL, **params}
        )
    assert response.status_code == 400
    assert message in response.json()["error"]["message"]


async def test_faults_apply_to_embeddings(url: str, model: AsyncOpenAI) -> None:
    await post_control(url, "faults", {"kind": "status", "status": 429, "path": "/embeddings"})
    with pytest.raises(openai.RateLimitError):
        await model.embeddings.create(model=EMBEDDING_MODEL, input="gold")
