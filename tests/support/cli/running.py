"""The run record of a local installation."""

import os
from datetime import UTC, datetime

from cli.local.data_directory import Running


def running_installation(pid: int | None = None) -> Running:
    return Running(
        pid=pid or os.getpid(),
        api_url="http://127.0.0.1:8300",
        nats_url="nats://127.0.0.1:4222",
        database_url="postgresql://postgres@/vigil?host=/data/postgres&port=5432",
        ports={"api": 8300},
        started_at=datetime(2026, 1, 2, tzinfo=UTC),
    )
