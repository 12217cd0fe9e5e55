"""Settings of a process, read from the environment once, at its composition root."""

import os
import socket
from typing import Literal

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

SANDBOX_MODEL = "sandbox-reader"


class Settings(BaseSettings):
    """Every setting has a `VIGIL_` name; keys and base URLs are also read under their makers' names."""

    model_config = SettingsConfigDict(
        env_prefix="VIGIL_", env_ignore_empty=True, extra="ignore", populate_by_name=True
    )

    database_url: str = "postgresql://postgres@127.0.0.1:5432/vigil"
    nats_url: str = "nats://127.0.0.1:4222"

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
    model: str = Field("gpt-5.4-mini", validation_alias=AliasChoices("OPENAI_MODEL", "VIGIL_MODEL"))
    """Model of every phase for which the agent names no other."""
    prices: dict[str, tuple[float, float]] = {}
    """Model to (input, output) price in USD for a million tokens. A model that is not here has no known cost."""
    llm_timeout_seconds: float = 180.0
    search_timeout_seconds: float = 60.0
    context_tokens: int = 6000
    """Budget of the graph context that a phase is shown."""

    slots: int | None = Field(None, ge=1)
    """Messages an actor handles at the same time; None takes the actor's own default."""
    max_attempts: int = Field(6, ge=1)
    """Tries of a step that may end in an error before the step fails for good."""
    drain_seconds: float = 20.0
    """How long a stopping actor lets its handlers finish before it hands their work over."""
    iteration_deadline_seconds: float = 1800.0
    scheduler_tick_seconds: float = Field(1.0, gt=0)
    resend_after_seconds: float = 15.0
    """How long a step may lie unclaimed before the reconciler asks for it again."""
    stream_max_age_seconds: float = 30 * 24 * 3600.0
    stream_max_bytes: int = 1024**3
    stream_replicas: int = 1

    host: str = "127.0.0.1"
    port: int = 0
    """Where this process answers HTTP (health; the api: everything). 0 takes any free port."""
    owner: str = "owner"
    """Name of the user that owns what is made without signing in."""
    log_format: Literal["console", "json"] = "json"
    log_level: str = "INFO"

    @property
    def worker_name(self) -> str:
        """Who holds a lease: machine and process."""
        return f"{socket.gethostname()}:{os.getpid()}"
