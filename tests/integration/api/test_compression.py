"""Pages are compressed, except those that may contain a secret."""

import httpx
import pytest

ROOT = "http://127.0.0.1"


@pytest.mark.parametrize("path", ["/agents", "/settings", "/nowhere"])
async def test_a_page_is_compressed_for_clients_that_accept_gzip(
    api: httpx.AsyncClient, path: str
) -> None:
    accept = {"Accept": "text/html"}
    compressed = await api.get(ROOT + path, headers={**accept, "Accept-Encoding": "gzip"})
    plain = await api.get(ROOT + path, headers={**accept, "Accept-Encoding": "identity"})
    assert compressed.headers["content-encoding"] == "gzip"
    assert "Accept-Encoding" in compressed.headers["vary"]
    assert "content-encoding" not in plain.headers
    assert compressed.text == plain.text


async def test_form_responses_and_the_sign_in_page_are_not_compressed(
    api: httpx.AsyncClient,
) -> None:
    form_response = await api.post(
        f"{ROOT}/settings/tokens",
        data={"name": "one", "scopes": "read"},
        headers={"Accept": "text/html", "Origin": ROOT},
    )
    sign_in_page = await api.get(f"{ROOT}/sign-in", headers={"Accept": "text/html"})
    for response in (form_response, sign_in_page):
        assert len(response.content) >= 1_000
        assert "content-encoding" not in response.headers


async def test_responses_to_programs_are_not_compressed(api: httpx.AsyncClient) -> None:
    response = await api.get("/openapi.json", headers={"Accept-Encoding": "gzip"})
    assert len(response.content) >= 1_000
    assert "content-encoding" not in response.headers
