"""Settings of a process, read from the environment once, at the composition root."""

import logging
import os
import re
import socket
from collections.abc import Mapping, Sequence
from decimal import Decimal
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SecretsSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from shared.agents.model_choice import check_models, first_model
from shared.durations import LEASE_SECONDS
from shared.enums import Phase, RetentionKind
from shared.errors import PermanentError, VigilError, describe_invalid_value
from shared.notifications.mail_server import MailServer
from shared.workflow.retention import RetentionPolicy, min_days

SANDBOX_MODEL = "sandbox-reader"
SANDBOX_KEY = "sandbox"
"""API key of the built-in sandbox: exactly this, or with a hyphen and a suffix. Calls with it are free."""
SECRETS_DIR_VARIABLE = "VIGIL_SECRETS_DIR"
PREFIX = "VIGIL_"
JSON_EXAMPLES = {
    "prices": '{"gpt-5.4": [1.25, 10]}',
    "model_options": '{"observer": {"reasoning_effort": "low"}}',
    "providers": '{"local": {"base_url": "http://127.0.0.1:8080/v1"}}',
    "phase_seconds": '{"knowledge_acquisition": 900}',
    "max_output_tokens_of_phase": '{"graph_construction": 32000}',
}
MIN_CONTEXT_TOKENS = 8_192
MAX_SECONDS = 10 * 366 * 86_400.0
"""Upper limit of any duration."""
MAX_DAYS = MAX_SECONDS / 86_400
MAX_NUMBER = 10**15
"""Upper limit of any other number."""
MAX_OF_FIELD = {"port": 65_535}
MIN_OF_FIELD = {"stream_max_bytes": -1}
"""For NATS, -1 means no limit."""
MAX_USD_PER_DAY = 100_000
MAX_CALLS_PER_DAY = 1_000_000_000
"""Upper limits of a budget."""

Price = Annotated[float, Field(ge=0, le=10_000, allow_inf_nan=False)]


class ModelProvider(BaseModel):
    """A further provider of models, besides that of `OPENAI_BASE_URL`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base_url: str = Field(pattern="^https?://")
    api_key: SecretStr | None = None
    api: Literal["chat", "background"] = "chat"
    requests_per_minute: float | None = Field(None, gt=0)
    tokens_per_minute: float | None = Field(None, gt=0)
    concurrency: int | None = Field(None, ge=1)
    context_tokens: int | None = Field(None, ge=MIN_CONTEXT_TOKENS)
    """As VIGIL_MODEL_CONTEXT_TOKENS."""


ProviderName = Annotated[str, Field(pattern="^[a-z0-9][a-z0-9._-]{0,39}$")]


class Settings(BaseSettings):
    """Every setting has a `VIGIL_` name; keys and base URLs are also read under the providers' own names.

    A setting can also be a file with its name in lower case, in a directory listed in $VIGIL_SECRETS_DIR (separated as
    in $PATH). The environment takes precedence.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", populate_by_name=True
    )

    database_url: str = "postgresql://postgres@127.0.0.1:5432/vigil"
    """TLS is requested in the URL: `?sslmode=verify-full&sslrootcert=/path/of/ca.pem`."""
    database_user: str | None = None
    """None: the user in the URL; if that has none and a password is set, the service's own role."""
    database_password: SecretStr | None = None
    nats_url: str = "nats://127.0.0.1:4222"
    """`tls://…` uses TLS from the first byte, for a server with `handshake_first`. With `nats://…` a man in the middle
    could remove TLS from the server's greeting and read the password.
    """
    nats_user: str | None = None
    """None: the service's name."""
    nats_password: SecretStr | None = None
    nats_ca_file: Path | None = None
    """If set, a NATS server with TLS must have a certificate signed by this CA."""
    nats_cert_file: Path | None = None
    """Client certificate, with its key, for a NATS server that requires one."""
    nats_key_file: Path | None = None
    keys_dir: Path | None = None
    """Directory written by `vigil keys`; if set, provisioning creates a PostgreSQL role per service."""

    signing_key_file: Path | None = None
    """An Ed25519 private key in PEM. If set, each service signs what it adds to the journal of a graph, and verification
    checks the signatures: who can write rows, and has no key, can then add no entry and change none.
    """

    openai_api_key: SecretStr | None = Field(
        None, validation_alias=AliasChoices("OPENAI_API_KEY", "VIGIL_OPENAI_API_KEY")
    )
    openai_base_url: str | None = Field(
        None, validation_alias=AliasChoices("OPENAI_BASE_URL", "VIGIL_OPENAI_BASE_URL")
    )
    tavily_api_key: SecretStr | None = Field(
        None, validation_alias=AliasChoices("TAVILY_API_KEY", "VIGIL_TAVILY_API_KEY")
    )
    tavily_base_url: str | None = Field(
        None, validation_alias=AliasChoices("TAVILY_BASE_URL", "VIGIL_TAVILY_BASE_URL")
    )
    search_given: str = ""
    """Whether the search service has a key that this service does not get: any words but `/dev/null` mean yes. Set by
    Compose and others for a service that only fetches pages, so that it does not take those of the sandbox.
    """
    sandbox_url: str | None = None
    """Used for the model or the search service if it has neither a key nor a base URL."""
    model: str = Field("gpt-5.4-mini", validation_alias=AliasChoices("OPENAI_MODEL", "VIGIL_MODEL"))
    """Model of every phase for which the agent names no other. `gpt-x, then y`: y answers while gpt-x is unavailable,
    unknown to its provider, or over its quota. `provider/model` is a model of one of `providers`.
    """
    providers: dict[ProviderName, ModelProvider] = {}
    """Further model servers by name, as JSON: `{"local": {"base_url": "http://127.0.0.1:8080/v1", "api_key": "…"}}`. Each
    may also have `api` (see `model_api`), `requests_per_minute`, `tokens_per_minute` and `concurrency`.
    """
    model_api: Literal["chat", "background"] = "chat"
    """API of the model server. `chat`: chat completions, which every server supports; a response in progress is lost,
    and paid for again, if the process dies. `background`: OpenAI's Responses API, where the worker that resumes the
    step fetches that response; OpenAI stores the responses for it, currently for 30 days, which rules out Zero Data
    Retention.
    """
    model_tool_choice: Literal["auto", "never"] = "auto"
    """Whether a phase that must act demands a tool call. `auto`: sends `tool_choice: "required"`, and omits it for a
    server that rejects it. `never`: demands it only in the prompt.
    """
    model_options: dict[
        Phase,
        dict[
            Literal["reasoning_effort", "verbosity", "service_tier"],
            Annotated[str, Field(min_length=1, max_length=40)],
        ],
    ] = {}
    """Further parameters per phase, as JSON: `{"observer": {"reasoning_effort": "low"}}`. A server that refuses one is not
    sent it again.
    """
    embedding_model: str | None = None
    """Model for embeddings of nodes and queries: a model of the same server that supports `dimensions`, such as
    text-embedding-3-small. None: no embedding search.
    """
    embedding_min_similarity: float = Field(0.3, gt=0, le=1)
    """Minimum cosine similarity of a search result; depends on the model."""
    prices: dict[str, Annotated[tuple[Price, ...], Field(min_length=2, max_length=3)]] = {}
    """Model to (input, output) or (input, output, cached input) price in USD per million tokens; overrides the price
    file.
    """
    prices_file: Path | None = None
    """Price list; None is `shared/llm/prices.toml`, whose prices should be checked. Models without a price use the
    file's fallback.
    """
    max_output_tokens: int = Field(16_000, ge=1)
    """Limit of one response including reasoning; sent with each request, so that its maximum cost is known."""
    max_output_tokens_of_phase: dict[Phase, Annotated[int, Field(ge=1)]] = {}
    """Limits per phase, as JSON: `{"graph_construction": 32000}`. Without one, `verification` has at most 4,000."""
    budget_usd_per_day: Decimal | None = Field(Decimal(5), ge=0, le=MAX_USD_PER_DAY)
    """Daily cap (UTC) in USD of newly created agents; `vigil budget` changes that of an agent. `none` is no cap."""
    budget_calls_per_day: int | None = Field(None, ge=0, le=MAX_CALLS_PER_DAY)
    """Daily cap in calls of the model and the search service."""
    model_stream: Literal["auto", "always", "never"] = "auto"
    """Whether chat completions are streamed. `auto`: until the server rejects it."""
    llm_silence_seconds: float = Field(60.0, gt=0)
    """Maximum pause within a streamed response. Keep-alives count as data."""
    llm_first_token_seconds: float = Field(600.0, gt=0)
    """Maximum time until a streamed response begins: slow servers send nothing while they process the prompt."""
    llm_total_seconds: float = Field(7200.0, gt=0)
    """Maximum duration of a streamed response."""
    llm_timeout_seconds: float = Field(180.0, gt=0)
    """Maximum duration of a response without streaming, and of each HTTP request of `background`."""
    phase_seconds: dict[Phase, Annotated[float, Field(gt=0, le=MAX_SECONDS)]] = {}
    """How long a worker may work on a phase, as JSON: `{"knowledge_acquisition": 900}`. Then the call in progress is given
    up, which counts as an attempt of the step, and what was answered is kept. A phase without an entry has no limit.
    """
    search_timeout_seconds: float = 60.0
    model_requests_per_minute: float | None = Field(None, gt=0)
    """Limit of requests to the model server of all processes together. None: only what its answers with status 429 teach."""
    model_tokens_per_minute: float | None = Field(None, gt=0)
    """Limit of tokens of these requests and their answers, estimated as a fourth of their bytes."""
    model_concurrency: int | None = Field(None, ge=1)
    """Limit of requests to the model server that are in progress at the same time."""
    search_requests_per_minute: float | None = Field(None, gt=0)
    """Like `model_requests_per_minute`, for the search service."""
    search_concurrency: int | None = Field(None, ge=1)
    """Like `model_concurrency`, for the search service."""
    probe_pages: int = Field(200, le=10_000)
    """Pages and feeds that are checked for changes before an iteration plans; 0: none, and every iteration asks the model
    for a plan, also if nothing is new.
    """
    search_every_seconds: float = Field(6 * 3600.0, gt=0)
    """An agent whose pages do not change searches the web at least this often."""
    search_ttl_seconds: float = Field(3600.0, ge=0)
    """How long an answer of the search service holds: within it, an agent's search with the same words is not paid for
    again, and no page read again, unless it has changed. 0: every search is made.
    """
    search_shared: bool = False
    """Whether answers to the searches of one agent hold for all agents of the installation, also those of other owners."""
    fetch_private: bool = False
    """Whether pages of this machine and of private networks are fetched. Leave it off unless all users may access what
    listens there.
    """
    fetch_gateway: str | None = None
    """URL of a server that fetches pages for Vigil, as `{url}?url=…`. It is trusted. None: Vigil fetches them itself."""
    fetch_gateway_key: SecretStr | None = None
    """Sent to the gateway as a bearer token."""
    model_context_tokens: int | None = Field(None, ge=MIN_CONTEXT_TOKENS)
    """The context of the model in tokens, for request and answer, as its server is set: 16384 for `llama-server -c 16384`.
    Longer requests are shortened. None: there is no such limit.
    """
    context_tokens: int = 6000
    """Token budget of the graph context that a phase gets."""
    duplicate_threshold: float = Field(0.55, gt=0, le=1)
    """Trigram similarity of two names from which the model is asked whether a new node is a duplicate."""
    conversation_tokens: int = Field(3000, ge=1)
    """Token budget of the turns that are sent in full; older ones are summarized."""

    smtp_url: SecretStr | None = None
    """Mail server: `smtp://user:password@host:587` with STARTTLS, or `smtps://…` with TLS from the first byte. User and
    password are percent-encoded. None: no mail is sent.
    """
    mail_from: str | None = None
    """Sender of mail: `vigil@example.org`, or `Vigil <vigil@example.org>`."""
    webhook_private: bool = False
    """Whether webhooks may be sent to this machine and to private networks. Leave it off unless all users may access
    what listens there.
    """

    concurrency: int | None = Field(None, ge=1)
    """Messages that a service handles concurrently; None: the service's default."""
    lease_seconds: float = Field(LEASE_SECONDS, gt=0)
    """How long the step of a killed worker stays blocked; a live lease is renewed three times in that time."""
    max_attempts: int = Field(6, ge=1)
    """Attempts that may end in an error before the step fails for good."""
    drain_seconds: float = 20.0
    """How long a stopping service waits for its handlers before it hands their work over."""
    iteration_deadline_seconds: float = Field(1800.0, gt=0)
    """How long an iteration may be without progress before it fails: no step started or ended, no call was answered,
    and no response grew. There is no limit in total, and none while a step waits for a provider.
    """
    scheduler_tick_seconds: float = Field(1.0, gt=0)
    resend_after_seconds: float = 10.0
    """How long a step may be unclaimed before the reconciler republishes its request."""
    stream_max_age_seconds: float = 30 * 24 * 3600.0
    stream_max_bytes: int = 1024**3
    stream_replicas: int = 1

    retention_transcripts_days: float = 30.0
    """After how many days the texts of an iteration's phase runs are deleted: what models were sent and answered, and what
    tools returned. Of conversations and configurations, the phase runs are deleted with their calls. 0 or `never`, here and
    below, keeps them until their agent is deleted; else at least 2.
    """
    retention_iterations_days: float = 45.0
    """After how many days an ended iteration is deleted, with its steps, phase runs and calls. What they cost stays as sums
    by day, and what they wrote to the graph stays. At least as long as transcripts. The newest 50 iterations of an agent,
    and the newest 20 that were not quiet, are kept whatever their age.
    """
    retention_contexts_days: float = 30.0
    """After how many days a graph context is deleted that no transcript has."""
    retention_pages_days: float = 30.0
    """After how many days a page is deleted that no fact cites. Pages that facts cite are kept as long as these."""
    retention_deliveries_days: float = 30.0
    """After how many days the record of a delivery that has ended is deleted."""
    retention_notices_days: float = 45.0
    """After how many days a notice is deleted from an inbox. Advice is kept."""
    retention_requests_days: float = 45.0
    """After how many days an answered or dropped request of an analysis for data is deleted."""
    retention_dead_letters_days: float = 30.0
    """After how many days a dead letter is discarded that nobody has retried or discarded. Until then, the iteration of its
    step is kept with all texts, so that it can be retried.
    """
    retention_transcripts_bytes: int = 0
    """How many bytes of texts are kept. If there are more, the oldest are deleted before their time, but nothing that is
    younger than 2 days, and nothing that is kept whatever its age. 0 or `never`, here and below: no limit of size.
    """
    retention_iterations_bytes: int = 0
    """How many bytes of iterations are kept, with their steps, phase runs and calls."""
    retention_contexts_bytes: int = 0
    retention_pages_bytes: int = 0
    """How many bytes of pages are kept, those that facts cite included."""
    retention_deliveries_bytes: int = 0
    retention_notices_bytes: int = 0
    """How many bytes inboxes may have, advice included, before the oldest notices are deleted."""
    retention_requests_bytes: int = 0
    retention_dead_letters_bytes: int = 0
    retention_every_seconds: float = Field(3600.0, gt=0)
    """How often the scheduler deletes what is older."""

    event_window: int = Field(10_000, ge=1)
    """How many of the newest events the API keeps in memory for event streams; older ones are read from NATS."""
    event_window_bytes: int = Field(32 * 1024**2, ge=1)
    event_listeners: int = Field(1000, ge=1)
    """Maximum number of concurrent event streams of one API process."""
    event_listeners_per_user: int = Field(50, ge=1)
    """Maximum number of concurrent event streams of one user, so that no user can take those of others."""

    data_directory: Path | None = None
    """A directory on the file system of the data: the scheduler reports its free space in metrics. `vigil up` sets it."""

    host: str = "127.0.0.1"
    port: int = 0
    """HTTP port of this process (health; the API: everything). 0 takes any free port."""
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    """Host names and addresses of the API, comma-separated, besides localhost and `host`. Requests for other hosts are
    rejected, which prevents DNS rebinding.
    """
    max_body_bytes: int = Field(1024**2, ge=1024)
    """Maximum size of a request body of the API."""
    requests_per_second: float = Field(100.0, gt=0)
    """Sustained rate limit of one caller at one API process."""
    requests_burst: int = Field(1000, ge=1)
    """Burst size of the rate limit."""
    connections: int = Field(2000, ge=1)
    """Maximum number of open connections of one process; less if its limit of open files is too low."""
    connections_per_address: int = Field(500, ge=1)
    """Maximum per address, or per /64 network for IPv6; no limit for those in `proxies`."""
    public_url: str | None = None
    """URL of the API for users, as in sign-in links: `https://vigil.example`. None: `http://` and its own address. With
    `https`, session cookies are only sent over TLS. Its host is an allowed host.
    """
    trace_url: str | None = None
    """Where the web UI links the trace of an iteration, with `{trace_id}`, as in `http://localhost:16686/trace/{trace_id}`."""
    proxies: Annotated[tuple[str, ...], NoDecode] = ()
    """Addresses or networks of proxies, comma-separated, whose X-Forwarded-For is trusted. Otherwise clients could
    forge it, and failed logins are counted by address.
    """
    owner: str = "owner"
    """Name of the user who owns the installation: an operator, created with it."""
    owner_token: SecretStr | None = None
    """For provisioning: the token that the owner's commands use, which replaces the last one."""
    log_format: Literal["console", "json"] = "json"
    log_level: str = "INFO"

    @field_validator(
        "openai_api_key",
        "tavily_api_key",
        "database_password",
        "nats_password",
        "smtp_url",
        "owner_token",
        "fetch_gateway_key",
        "public_url",
        mode="before",
    )
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        """An empty secrets file or variable means not set."""
        return None if isinstance(value, str) and not value.strip() else value

    @field_validator("budget_usd_per_day", "budget_calls_per_day", mode="before")
    @classmethod
    def _none_is_no_cap(cls, value: Any) -> Any:
        is_none = isinstance(value, str) and value.strip().lower() == "none"
        return None if is_none else value

    @field_validator(
        *(f"retention_{kind}_{unit}" for kind in RetentionKind for unit in ("days", "bytes")),
        mode="before",
    )
    @classmethod
    def _never_is_zero(cls, value: Any) -> Any:
        is_never = isinstance(value, str) and value.strip().lower() == "never"
        return 0 if is_never else value

    @field_validator(*(f"retention_{kind}_days" for kind in RetentionKind))
    @classmethod
    def _days_or_never(cls, value: float, field: ValidationInfo) -> float:
        name = str(field.field_name).removeprefix("retention_").removesuffix("_days")
        least = min_days(RetentionKind(name))
        if 0 < value < least:
            raise ValueError(f"give at least {least:g} days, or never")
        return value

    @field_validator("*")
    @classmethod
    def _within_bounds(cls, value: Any, field: ValidationInfo) -> Any:
        """Rejects NaN, infinity and numbers that no clock, port or column can hold."""
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            name = field.field_name or ""
            maximum = MAX_OF_FIELD.get(name, _max_of_unit(name))
            minimum = MIN_OF_FIELD.get(name, 0)
            if not minimum <= value <= maximum:
                raise ValueError(f"give a number from {minimum} to {maximum:g}")
        return value

    @field_validator("model")
    @classmethod
    def _check_models(cls, value: str) -> str:
        return check_models(value)

    @field_validator("public_url")
    @classmethod
    def _is_origin(cls, value: str | None) -> str | None:
        if value is not None and not _ORIGIN.fullmatch(value):
            raise ValueError(
                "give only scheme, host and port, as in https://vigil.example: the web UI does not work below a path"
            )
        return value

    @field_validator("smtp_url")
    @classmethod
    def _is_mail_server(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            try:
                MailServer.from_url(value.get_secret_value())
            except PermanentError as error:
                raise ValueError(str(error)) from None
        return value

    @field_validator("log_level")
    @classmethod
    def _is_log_level(cls, value: str) -> str:
        levels = logging.getLevelNamesMapping()
        if value.upper() not in levels:
            raise ValueError(f"choose from {', '.join(sorted(levels, key=levels.__getitem__))}")
        return value

    @field_validator("proxies")
    @classmethod
    def _are_networks(cls, value: Sequence[str]) -> Sequence[str]:
        for each in value:
            try:
                ip_network(each, strict=False)
            except ValueError:
                raise ValueError(
                    f"{each!r} is no address or network: write them as in 10.0.0.7,10.1.0.0/16"
                ) from None
        return value

    @field_validator("allowed_hosts", "proxies", mode="before")
    @classmethod
    def _split_commas(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return [host for item in value.split(",") if (host := item.strip())]

    @model_validator(mode="after")
    def _use_sandbox(self) -> Self:
        """Uses the sandbox for each provider without key and base URL."""
        if self.sandbox_url is None:
            return self
        base = self.sandbox_url.rstrip("/")
        if self.openai_api_key is None and self.openai_base_url is None:
            self.openai_base_url, self.openai_api_key = f"{base}/v1", SecretStr(SANDBOX_KEY)
            self.model = SANDBOX_MODEL
            self.embedding_model = None  # The sandbox makes no embeddings.
        is_elsewhere = bool(set(self.search_given.split()) - {os.devnull})
        if self.tavily_api_key is None and self.tavily_base_url is None and not is_elsewhere:
            self.tavily_base_url, self.tavily_api_key = base, SecretStr(SANDBOX_KEY)
        return self

    @model_validator(mode="after")
    def _keeps_iterations_as_long_as_transcripts(self) -> Self:
        transcripts, iterations = self.retention_transcripts_days, self.retention_iterations_days
        if iterations and (not transcripts or transcripts > iterations):
            raise ValueError(
                f"VIGIL_RETENTION_ITERATIONS_DAYS: {iterations:g} is less than VIGIL_RETENTION_TRANSCRIPTS_DAYS"
                f" ({f'{transcripts:g}' if transcripts else 'never'}): transcripts are deleted with their iteration"
            )
        return self

    @property
    def retention_policy(self) -> RetentionPolicy:
        return RetentionPolicy.of_days(
            {kind: getattr(self, f"retention_{kind}_days") for kind in RetentionKind},
            {kind: getattr(self, f"retention_{kind}_bytes") for kind in RetentionKind},
        )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        directories = os.environ.get(SECRETS_DIR_VARIABLE, "").split(os.pathsep)
        files = SecretsSettingsSource(
            settings_cls, secrets_dir=[directory for directory in directories if directory]
        )
        return init_settings, env_settings, files

    @property
    def sandboxed_providers(self) -> list[str]:
        """The providers that the sandbox replaces: of `model` and `search`."""
        replaced = {"model": self.model_is_sandbox, "search": self.search_is_sandbox}
        return [name for name, is_sandbox in replaced.items() if is_sandbox]

    @property
    def model_is_sandbox(self) -> bool:
        """Whether the built-in sandbox answers in place of a model."""
        return _is_of_sandbox(self.openai_api_key)

    @property
    def search_is_sandbox(self) -> bool:
        """Whether the built-in sandbox answers in place of the search service."""
        return _is_of_sandbox(self.tavily_api_key)

    @property
    def first_model(self) -> str:
        """The model that is tried first where the agent names none."""
        return first_model(self.model)

    @property
    def base_url(self) -> str:
        """`public_url`, or the local address of the API. Never taken from a request."""
        if self.public_url is not None:
            return self.public_url.rstrip("/")
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def is_public_over_tls(self) -> bool:
        return self.base_url.startswith("https://")

    @property
    def worker_name(self) -> str:
        """Owner name of leases: machine and process."""
        return f"{socket.gethostname()}:{os.getpid()}"


_ORIGIN: Final = re.compile(
    r"https?://(?:[\w.-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?/?", re.IGNORECASE
)


def _max_of_unit(name: str) -> float:
    if name.endswith("_days"):
        return MAX_DAYS
    return MAX_SECONDS if name.endswith("_seconds") else MAX_NUMBER


def _is_of_sandbox(key: SecretStr | None) -> bool:
    text = "" if key is None else key.get_secret_value()
    return text == SANDBOX_KEY or text.startswith(f"{SANDBOX_KEY}-")


class InvalidSettingError(VigilError):
    """A setting is invalid; the message names its variable."""


def load_settings() -> Settings:
    """Raises InvalidSettingError."""
    try:
        return Settings()
    except ValidationError as error:
        details = "; ".join(_describe(detail) for detail in error.errors())
        raise InvalidSettingError(f"a setting in the environment is invalid: {details}") from error
    except (SettingsError, RecursionError) as error:
        raise InvalidSettingError(
            f"a setting in the environment is invalid: {_describe_json(error)}"
        ) from error


def _describe(detail: Mapping[str, Any]) -> str:
    location = detail["loc"]
    name = _variable(location)
    inner = "".join(f"[{part!r}]" for part in location[1:] if part != "[key]")
    value = str(detail["input"])[:80]
    shown = "" if _is_secret(str(location[0])) else f" (it is {value!r})"
    return f"{name}{inner}: {describe_invalid_value(detail)}{shown}"


def _describe_json(error: Exception) -> str:
    """The variable whose value is no JSON; pydantic-settings names only its field."""
    if "secrets_dir" in str(error):
        value = os.environ.get(SECRETS_DIR_VARIABLE, "")[:80]
        return f"{SECRETS_DIR_VARIABLE}: name directories, not files (it is {value!r})"
    for field, info in Settings.model_fields.items():
        if f'"{field}"' in str(error):
            value = os.environ.get(f"{PREFIX}{field.upper()}", "")[:80]
            example = JSON_EXAMPLES.get(field, str(info.default))
            shown = "" if _is_secret(field) else f" (it is {value!r})"
            return f"{PREFIX}{field.upper()}: write JSON, as in {example}{shown}"
    return str(error)


def _is_secret(field: str) -> bool:
    return any(
        part in field.lower() for part in ("key", "password", "token", "smtp_url", "providers")
    )


def _variable(location: tuple[int | str, ...]) -> str:
    name = str(location[0])
    return name if name.isupper() else f"{PREFIX}{name.upper()}"
