"""The `vigil destination` command on a whole installation, with a webhook receiver."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.e2e.installation import Installation, installed
from tests.support.webhook_server import Hit


@pytest.fixture
def vigil(tmp_path: Path) -> Iterator[Installation]:
    # The receiver of these tests is on loopback.
    with installed(tmp_path, {"VIGIL_WEBHOOK_PRIVATE": "true"}) as installation:
        installation.up()
        yield installation


@contextmanager
def receiving(hits: list[Hit]) -> Iterator[str]:
    """A receiver that answers 204 to every path but `/broken`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            hits.append(Hit(self.path, headers, body))
            self.send_response(500 if self.path == "/broken" else 204)
            self.end_headers()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.slow
def test_a_webhook_is_added_tested_paused_and_removed(vigil: Installation) -> None:
    hits: list[Hit] = []
    with receiving(hits) as url:
        destination = vigil.json("destination", "add", f"{url}/hook")
        delivery = vigil.json("destination", "test", "/hook")
        assert (delivery["status"], delivery["status_code"], delivery["attempts"]) == (
            "delivered",
            204,
            1,
        )
        (hit,) = hits
        assert hit.id == delivery["id"]
        assert hit.signed_by(destination["secret"])
        rotated = vigil.json("destination", "rotate-secret", destination["id"])
        assert "delivered (204)" in vigil.vigil("destination", "test", destination["id"][:8]).stdout
        assert hits[-1].signed_by(destination["secret"])
        assert hits[-1].signed_by(rotated["secret"])
        vigil.json("destination", "add", f"{url}/broken")
        broken = vigil.vigil("destination", "test", "broken")
        assert broken.returncode == 1
        assert "500 Internal Server Error" in broken.stdout
    assert "paused" not in vigil.vigil("destination", "list").stdout
    vigil.vigil("destination", "pause", "/hook")
    assert "paused" in vigil.vigil("destination", "list").stdout
    inactive = vigil.vigil("destination", "test", "/hook")
    assert (inactive.returncode, "not active" in inactive.stderr) == (1, True)
    assert vigil.json("destination", "resume", "/hook")["active"]
    ambiguous = vigil.vigil("destination", "show", "127.0.0.1")
    assert (ambiguous.returncode, "several destinations" in ambiguous.stderr) == (1, True)
    assert "no destination" in vigil.vigil("destination", "show", "elsewhere").stderr
    assert destination["secret"] not in vigil.vigil("destination", "show", "/hook", "--json").stdout
    assert vigil.json("destination", "retry", "broken")
    mail = vigil.vigil("destination", "add", "you@example.org")
    assert (mail.returncode, "VIGIL_SMTP_URL" in mail.stderr) == (1, True)
    vigil.vigil("destination", "remove", "/hook", "--yes")
    vigil.vigil("destination", "remove", "broken", "--yes")
    assert vigil.json("destination", "list") == []


def test_by_default_a_webhook_to_loopback_is_refused(tmp_path: Path) -> None:
    hits: list[Hit] = []
    with installed(tmp_path) as vigil, receiving(hits) as url:
        vigil.up()
        result = vigil.vigil("destination", "add", f"{url}/hook")
        assert (result.returncode, "is not allowed" in result.stderr) == (1, True)
    assert hits == []
