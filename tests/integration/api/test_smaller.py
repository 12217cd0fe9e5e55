"""Pages are compressed, but for those where a secret may stand, and streams are not."""

import httpx
import pytest

ROOT = "http://127.0.0.1"


@pytest.mark.parametrize("path", ["/agents", "/settings", "/nowhere"])
async def test_a_page_is_compressed_for_whoever_can_read_that(
    api: httpx.AsyncClient, path: str
) -> None:
    accept = {"Accept": "text/html"}
    smaller = await api.get(ROOT + path, headers={**accept, "Accept-Encoding": "gzip"})
    plain = await api.get(ROOT + path, headers={**accept, "Accept-Encoding": "identity"})
    assert smaller.headers["content-encoding"] == "gzip"
    assert "Accept-Encoding" in smaller.headers["vary"]
    assert "content-encoding" not in plain.headers
    assert smaller.text == plain.text


async def test_answers_to_forms_and_what_leads_in_stay_as_they_are(api: httpx.AsyncClient) -> None:
    told = await api.post(
        f"{ROOT}/settings/tokens",
        data={"name": "one", "scopes": "read"},
        headers={"Accept": "text/html", "Origin": ROOT},
    )
    led = await api.get(f"{ROOT}/sign-in", headers={"Accept": "text/html"})
    for answer in (told, led):
        assert len(answer.content) >= 1_000
        assert "content-encoding" not in answer.headers


async def test_what_programs_ask_for_stays_as_it_is(api: httpx.AsyncClient) -> None:
    answer = await api.get("/openapi.json", headers={"Accept-Encoding": "gzip"})
    assert len(answer.content) >= 1_000
    assert "content-encoding" not in answer.headers
