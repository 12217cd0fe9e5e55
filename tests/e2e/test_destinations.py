"""The `vigil destination` command on a whole installation, with a webhook receiver."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.e2e.installation import Installation, installed
from tests.support.webhook_server import Hit, receiving


@pytest.fixture
def vigil(tmp_path: Path) -> Iterator[Installation]:
    # The receiver of these tests is on loopback.
    with installed(tmp_path, {"VIGIL_WEBHOOK_PRIVATE": "true"}) as installation:
        installation.up()
        yield installation


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
