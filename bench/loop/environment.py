"""Where a measurement runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.loop.counters import Meter
from bench.loop.service_pool import ServicePool
from cli.local.nats import EmbeddedNats
from cli.local.postgres import EmbeddedPostgres
from shared.runtime.settings import Settings

DATABASE: Final = "vigil"


@dataclass(frozen=True)
class Environment:
    """The engines, settings and directory of a measurement."""

    settings: Settings
    home: Path
    postgres: EmbeddedPostgres
    nats: EmbeddedNats

    def meter(self, pool: ServicePool | None) -> Meter:
        nats_pid = self.nats.pid if pool else None
        assert self.postgres.pid is not None
        return Meter(self.postgres.dsn, self.postgres.pid, nats_pid, pool)
