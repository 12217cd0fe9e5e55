"""The sandbox's embeddings, requested with OpenAI's client."""

import httpx
import openai
import pytest
from openai import AsyncOpenAI

from tests.support.sandbox.serving import post_control, read_meter

EMBEDDER = "sandbox-embedder"


async def test_texts_become_vectors_of_the_length_that_is_asked_for(
    url: str, model: AsyncOpenAI
) -> None:
    made = await model.embeddings.create(model=EMBEDDER, input=["gold", "copper"], dimensions=64)
    assert [(each.index, len(each.embedding)) for each in made.data] == [(0, 64), (1, 64)]
    assert made.usage.prompt_tokens == made.usage.total_tokens == 3
    counted = await read_meter(url)
    assert (counted["billed"]["embedding"], counted["usd"]) == (1, "0.00000006")


async def test_plain_numbers_and_packed_ones_say_the_same(model: AsyncOpenAI) -> None:
    packed = await model.embeddings.create(model=EMBEDDER, input="gold mines", dimensions=8)
    plain = await model.embeddings.create(
        model=EMBEDDER, input="gold mines", dimensions=8, encoding_format="float"
    )
    assert packed.data[0].embedding == pytest.approx(plain.data[0].embedding, abs=1e-6)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"input": []}, "`input`"),
        ({"input": [""]}, "`input`"),
        ({"input": "a", "dimensions": 0}, "`dimensions`"),
    ],
)
async def test_what_no_vector_can_be_made_of_is_refused(
    url: str, given: dict[str, object], said: str
) -> None:
    headers = {"authorization": "Bearer any"}
    async with httpx.AsyncClient(headers=headers) as client:
        answer = await client.post(f"{url}/v1/embeddings", json={"model": EMBEDDER, **given})
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]


async def test_ordered_faults_strike_here_too(url: str, model: AsyncOpenAI) -> None:
    await post_control(url, "faults", {"kind": "status", "status": 429, "path": "/embeddings"})
    with pytest.raises(openai.RateLimitError):
        await model.embeddings.create(model=EMBEDDER, input="gold")
