"""Settings of a process, read from the environment once, at its composition root."""

import os
import socket
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AliasChoices,
    Field,
    PrivateAttr,
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

from shared.enums import Phase
from shared.errors import VigilError
from shared.workflow.leases import LEASE_SECONDS

SANDBOX_MODEL = "sandbox-reader"
SANDBOX_EMBEDDER = "sandbox-embedder"
SANDBOX_KEY = "sandbox"
"""Keys of the built-in sandbox are this, or begin with it and a hyphen. By that its calls are known to cost nothing."""
SECRETS_DIRECTORIES = "VIGIL_SECRETS_DIR"
LONGEST_SECONDS = 10 * 366 * 86_400.0
"""Of any time that is set."""
LARGEST = 10**15
"""Of any other number."""
LARGEST_OF_FIELD = {"port": 65_535}
SMALLEST_OF_FIELD = {"stream_max_bytes": -1}
"""Where NATS has it mean that there is no limit."""
MOST_USD_PER_DAY = 100_000
MOST_CALLS_PER_DAY = 1_000_000_000
"""Of a budget."""

Price = Annotated[float, Field(ge=0, le=10_000, allow_inf_nan=False)]


class Settings(BaseSettings):
    """Every setting has a `VIGIL_` name; keys and base URLs are also read under their makers' names.

    Any of them may stand in a file of that name, in lower case, in a directory that $VIGIL_SECRETS_DIR names
    (several: separated as in $PATH). What the environment says comes first.
    """

    model_config = SettingsConfigDict(
        env_prefix="VIGIL_", env_ignore_empty=True, extra="ignore", populate_by_name=True
    )

    database_url: str = "postgresql://postgres@127.0.0.1:5432/vigil"
    """TLS is asked for by the URL itself: `?sslmode=verify-full&sslrootcert=/path/of/ca.pem`."""
    database_user: str | None = None
    """None: the URL's, or where it names none and a password is set, the actor's own role."""
    database_password: SecretStr | None = None
    nats_url: str = "nats://127.0.0.1:4222"
    """`tls://…` speaks TLS from the first byte, for a NATS with `handshake_first`: then nobody on the way can have the
    password in plain text by leaving TLS out of the greeting, as is possible with `nats://…`."""
    nats_user: str | None = None
    """None: the actor's name."""
    nats_password: SecretStr | None = None
    nats_ca_file: Path | None = None
    """Given, a NATS that asks for TLS must show a certificate that this CA has signed."""
    nats_cert_file: Path | None = None
    """With its key: shown to a NATS that asks for certificates of its clients."""
    nats_key_file: Path | None = None
    keys_dir: Path | None = None
    """What `vigil keys` has made; where it is set, provisioning gives each actor its Postgres role."""

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
    sandbox_url: str | None = None
    """Where the model or the search service is asked when it has neither a key nor a base URL."""
    model: str = Field("gpt-5.4-mini", validation_alias=AliasChoices("OPENAI_MODEL", "VIGIL_MODEL"))
    """Model of every phase for which the agent names no other."""
    model_api: Literal["chat", "background"] = "chat"
    """How the model is asked. `chat`: chat completions, which any server speaks; an answer that is under way when its
    process dies is lost, and paid for again. `background`: OpenAI's Responses API, where whoever resumes the step
    picks that answer up; OpenAI stores the answers for it, at this writing for 30 days, which rules out Zero Data Retention.
    """
    model_tool_choice: Literal["auto", "never"] = "auto"
    """Whether a phase that must act demands a tool call of the model. `auto`: it sends `tool_choice: "required"`, and
    leaves it out for a server that refuses it. `never`: it asks in words alone."""
    embedding_model: str | None = None
    """By which nodes and questions become vectors, so that a search finds what is near in meaning: a model of the same
    server that takes `dimensions`, as text-embedding-3-small. None: no search by meaning, and no such call."""
    embedding_likeness: float = Field(0.3, gt=0, le=1)
    """From which cosine on a node counts as near to what is asked; another model may need another."""
    prices: dict[str, tuple[Price, Price]] = {}
    """Model to (input, output) price in USD for a million tokens, in place of what the file of prices says."""
    prices_file: Path | None = None
    """What calls cost; None is `shared/llm/prices.toml`, whose figures are to be checked. What neither names is counted
    at the file's fallback."""
    most_output_tokens: int = Field(16_000, ge=1)
    """Of one answer, thoughts included: sent with each request, so that what it can cost is known before."""
    most_output_tokens_of_phase: dict[Phase, Annotated[int, Field(ge=1)]] = {}
    """Where a phase needs another limit, as JSON: `{"graph_construction": 32000}`."""
    budget_usd_per_day: Decimal | None = Field(Decimal(5), ge=0, le=MOST_USD_PER_DAY)
    """The daily cap (UTC) in USD of agents that are created from now on; `vigil budget` changes an agent's own. `none` is
    no cap."""
    budget_calls_per_day: int | None = Field(None, ge=0, le=MOST_CALLS_PER_DAY)
    """The same in calls of the model and the search service."""
    model_stream: Literal["auto", "always", "never"] = "auto"
    """Whether answers of chat completions are streamed. `auto`: until the server refuses that."""
    llm_silence_seconds: float = Field(60.0, gt=0)
    """How long a streamed answer may pause once it has begun. A server that sends keep-alives does not pause."""
    llm_first_token_seconds: float = Field(600.0, gt=0)
    """How long a server may be silent before a streamed answer begins: slow ones send nothing while they read a prompt."""
    llm_total_seconds: float = Field(7200.0, gt=0)
    """How long a streamed answer may take in all."""
    llm_timeout_seconds: float = Field(180.0, gt=0)
    """How long the whole answer may take where it is not streamed, and each HTTP request of `background`."""
    search_timeout_seconds: float = 60.0
    context_tokens: int = 6000
    """Budget of the graph context that a phase is shown."""
    name_likeness: float = Field(0.55, gt=0, le=1)
    """From which on the model is asked whether a new node is one that is called alike: the part of their names'
    trigrams that both have."""
    conversation_tokens: int = Field(3000, ge=1)
    """Budget of a conversation's turns that the model is shown in full; older ones it is told by a summary."""

    smtp_url: SecretStr | None = None
    """Of the server that takes Vigil's mail: `smtp://user:password@host:587`, which becomes TLS by STARTTLS, or
    `smtps://…`, which is TLS from the first byte. User and password are percent-encoded. None: no mail is sent."""
    mail_from: str | None = None
    """Whom Vigil's mail comes from: `vigil@example.org`, or `Vigil <vigil@example.org>`."""
    webhook_private: bool = False
    """Whether webhooks may be sent to this machine and to private networks. Where not all who may make one are trusted with
    what listens there, leave it off."""

    slots: int | None = Field(None, ge=1)
    """Messages an actor handles at the same time; None takes the actor's own default."""
    lease_seconds: float = Field(LEASE_SECONDS, gt=0)
    """How long a killed worker's step stays out of the others' reach; a lease that lives is renewed three times in that."""
    max_attempts: int = Field(6, ge=1)
    """Tries of a step that may end in an error before the step fails for good."""
    drain_seconds: float = 20.0
    """How long a stopping actor lets its handlers finish before it hands their work over."""
    iteration_deadline_seconds: float = Field(1800.0, gt=0)
    """How long an iteration may be without progress before it fails: no step was begun or ended, no call was answered, and
    no answer grew. However long it takes in all, and while a step waits for a provider that is away, it goes on."""
    scheduler_tick_seconds: float = Field(1.0, gt=0)
    resend_after_seconds: float = 10.0
    """How long a step may lie unclaimed before the reconciler asks for it again."""
    stream_max_age_seconds: float = 30 * 24 * 3600.0
    stream_max_bytes: int = 1024**3
    stream_replicas: int = 1

    event_window: int = Field(10_000, ge=1)
    """How many of the newest events the api keeps in memory for those who follow them; older ones are read from NATS."""
    event_window_bytes: int = Field(32 * 1024**2, ge=1)
    event_listeners: int = Field(1000, ge=1)
    """How many may follow events at one api process at the same time."""

    host: str = "127.0.0.1"
    port: int = 0
    """Where this process answers HTTP (health; the api: everything). 0 takes any free port."""
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    """Names and addresses by which the api may be called, separated by commas, besides localhost and `host`. To any other
    it does not answer: a page that a browser here shows could have invented it, to come in as its user."""
    max_body_bytes: int = Field(1024**2, ge=1024)
    """Longest body of a request that the api takes."""
    requests_per_second: float = Field(100.0, gt=0)
    """How fast one caller may ask one api process for long."""
    requests_burst: int = Field(1000, ge=1)
    """How many requests one caller may make at once."""
    connections: int = Field(2000, ge=1)
    """Connections that may be open to one process at once; fewer where its limit of open files is too low for them."""
    connections_per_address: int = Field(500, ge=1)
    """How many of them may come from one address, of IPv6 from one /64 network; those in `proxies` may have any number."""
    public_url: str | None = None
    """By which people reach the api, as sign-in links have it: `https://vigil.example`. None: `http://` and its own
    address. With `https` a browser's session goes over TLS alone. Its host is one of the allowed."""
    proxies: Annotated[tuple[str, ...], NoDecode] = ()
    """Addresses or networks of proxies, separated by commas, whose X-Forwarded-For is believed; else whoever asks could
    write there what he likes, and attempts to come in are counted by address."""
    owner: str = "owner"
    """Name of the user whom the installation belongs to: an operator, made with it."""
    owner_token: SecretStr | None = None
    """Where this installation is provisioned: a token by which its owner's commands come in, in place of the last."""
    log_format: Literal["console", "json"] = "json"
    log_level: str = "INFO"

    _sandboxed: list[str] = PrivateAttr(default_factory=list)

    @field_validator(
        "openai_api_key",
        "tavily_api_key",
        "database_password",
        "nats_password",
        "smtp_url",
        "owner_token",
        mode="before",
    )
    @classmethod
    def _nothing_is_none(cls, given: Any) -> Any:
        """An empty file of secrets says that there is none."""
        return None if isinstance(given, str) and not given.strip() else given

    @field_validator("budget_usd_per_day", "budget_calls_per_day", mode="before")
    @classmethod
    def _none_is_no_cap(cls, given: Any) -> Any:
        is_none = isinstance(given, str) and given.strip().lower() == "none"
        return None if is_none else given

    @field_validator("*")
    @classmethod
    def _within_bounds(cls, given: Any, field: ValidationInfo) -> Any:
        """NaN, infinity and numbers that no clock, port or column can hold."""
        if isinstance(given, int | float | Decimal) and not isinstance(given, bool):
            name = field.field_name or ""
            most = LARGEST_OF_FIELD.get(
                name, LONGEST_SECONDS if name.endswith("_seconds") else LARGEST
            )
            least = SMALLEST_OF_FIELD.get(name, 0)
            if not least <= given <= most:
                raise ValueError(f"give a number from {least} to {most:g}")
        return given

    @field_validator("allowed_hosts", "proxies", mode="before")
    @classmethod
    def _separated_by_commas(cls, given: Any) -> Any:
        if not isinstance(given, str):
            return given
        return [host for each in given.split(",") if (host := each.strip())]

    @model_validator(mode="after")
    def _stand_in(self) -> Self:
        """The sandbox answers where nobody else is named."""
        if self.sandbox_url is None:
            return self
        base = self.sandbox_url.rstrip("/")
        if self.openai_api_key is None and self.openai_base_url is None:
            self.openai_base_url, self.openai_api_key = f"{base}/v1", SecretStr(SANDBOX_KEY)
            self.model = SANDBOX_MODEL
            if self.embedding_model is not None:
                self.embedding_model = SANDBOX_EMBEDDER
            self._sandboxed.append("model")
        if self.tavily_api_key is None and self.tavily_base_url is None:
            self.tavily_base_url, self.tavily_api_key = base, SecretStr(SANDBOX_KEY)
            self._sandboxed.append("search")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        named = os.environ.get(SECRETS_DIRECTORIES, "").split(os.pathsep)
        files = SecretsSettingsSource(
            settings_cls, secrets_dir=[directory for directory in named if directory]
        )
        return init_settings, env_settings, files

    @property
    def sandboxed(self) -> list[str]:
        """Whom the sandbox stands in for, in words."""
        return self._sandboxed

    @property
    def model_is_sandbox(self) -> bool:
        """Whether the built-in sandbox answers in place of a model."""
        return _is_of_sandbox(self.openai_api_key)

    @property
    def search_is_sandbox(self) -> bool:
        """Whether the built-in sandbox answers in place of the search service."""
        return _is_of_sandbox(self.tavily_api_key)

    @property
    def reached_at(self) -> str:
        """`public_url`, or where it is none, how this machine reaches the api. Never what a request says of itself."""
        if self.public_url is not None:
            return self.public_url.rstrip("/")
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def is_public_over_tls(self) -> bool:
        return self.reached_at.startswith("https://")

    @property
    def worker_name(self) -> str:
        """Who holds a lease: machine and process."""
        return f"{socket.gethostname()}:{os.getpid()}"


def _is_of_sandbox(key: SecretStr | None) -> bool:
    text = "" if key is None else key.get_secret_value()
    return text == SANDBOX_KEY or text.startswith(f"{SANDBOX_KEY}-")


class UnusableSettingError(VigilError):
    """A setting cannot be understood; the message names its variable."""


def settings_of_environment() -> Settings:
    """Raises UnusableSettingError."""
    try:
        return Settings()
    except ValidationError as error:
        faults = "; ".join(
            f"{_variable(fault['loc'])}: {fault['msg']} (it is {str(fault['input'])[:80]!r})"
            for fault in error.errors()
        )
        raise UnusableSettingError(
            f"a setting in the environment cannot be used: {faults}"
        ) from error
    except (SettingsError, RecursionError) as error:  # of those that are JSON
        raise UnusableSettingError(
            f"a setting in the environment cannot be used: {error}"
        ) from error


def _variable(location: tuple[int | str, ...]) -> str:
    name = str(location[0])
    return name if name.isupper() else f"VIGIL_{name.upper()}"
