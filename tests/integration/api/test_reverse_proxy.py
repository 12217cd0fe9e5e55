"""Signing in behind nginx: the plainest configuration, and the one of the guide."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from typing import Final

import httpx
import pytest

from cli.local.ports import free_port
from services.api.paths import SIGN_IN_LINK
from shared.accounts.secrets import new_secret
from shared.runtime.settings import Settings
from tests.support.api.serving import serve_api
from tests.support.paths import ROOT
from tests.support.waiting import wait_until

NGINX: Final = which("nginx") or which("nginx", path="/usr/sbin")
PLAIN: Final = "location / { proxy_pass http://127.0.0.1:8080; }"
GUIDE: Final = ROOT / "docs" / "guide" / "cluster.md"
BROWSER: Final = {"accept": "text/html", "content-type": "application/x-www-form-urlencoded"}


def location_of_guide() -> str:
    [location] = re.findall(r"```nginx\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    return str(location)


@contextmanager
def nginx(directory: Path, location: str, port: int, api: str) -> Iterator[None]:
    """Serves `location` in front of the API."""
    if NGINX is None:
        pytest.skip("nginx is not installed: apt install nginx-light")
    paths = " ".join(
        f"{name}_temp_path {directory / name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    inner = location.replace("http://127.0.0.1:8080", api)
    (directory / "nginx.conf").write_text(
        f"daemon off; pid {directory / 'pid'}; error_log {directory / 'error.log'}; events {{}}\n"
        f"http {{ access_log off; {paths} server {{ listen 127.0.0.1:{port}; {inner} }} }}\n"
    )
    command = [NGINX, "-p", str(directory), "-c", str(directory / "nginx.conf")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=10)


@pytest.mark.parametrize("location", [PLAIN, location_of_guide()], ids=["plain", "guide"])
@pytest.mark.parametrize("is_named", [True, False], ids=["public-url", "no-public-url"])
async def test_signing_in_behind_nginx(
    settings: Settings, tmp_path: Path, location: str, is_named: bool
) -> None:
    port = free_port()
    public_url = f"http://127.0.0.1:{port}"
    named = settings.model_copy(update={"public_url": public_url if is_named else None})
    passes_host = location != PLAIN
    link = f"{public_url}{SIGN_IN_LINK}?secret={new_secret()}"
    with serve_api(named) as api, nginx(tmp_path, location, port, api):
        async with httpx.AsyncClient() as browser:

            async def is_served() -> bool:
                try:
                    return (await browser.get(f"{public_url}/health/live")).is_success
                except httpx.TransportError:
                    return False

            await wait_until(is_served, what="nginx to serve")
            assert "Sign in to Vigil" in (await browser.get(link, headers=BROWSER)).text
            # The secret is unknown: a request that gets this far is answered that the link no longer works.
            answer = await browser.post(link, headers={**BROWSER, "origin": public_url})
            assert answer.headers["content-type"].startswith("text/html")
            if is_named or passes_host:
                assert (answer.status_code, "no longer works" in answer.text) == (410, True)
            else:
                assert answer.status_code == 403
                assert f"VIGIL_PUBLIC_URL={public_url}" in answer.text
                assert "header Host" in answer.text
            foreign = await browser.post(link, headers={**BROWSER, "origin": "http://evil.example"})
            assert foreign.status_code == 403
