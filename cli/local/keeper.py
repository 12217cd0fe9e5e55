"""Keeps an engine running: what died is started again, on the same data and port."""

import time
from typing import Final

from cli.local.engine import Engine
from cli.local.errors import EngineError
from cli.local.restarts import RestartDelay

READY_SECONDS: Final = 30.0


class EngineKeeper:
    """To be asked often, by the main thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._started = time.monotonic()
        self._delay = RestartDelay()
        self._restart_at: float | None = None

    def look_after(self) -> str | None:
        """What happened since, in a line, or None. Waits for an engine that it starts."""
        if self._engine.alive():
            return None
        now = time.monotonic()
        if self._restart_at is None:
            delay_seconds = self._delay.after(now - self._started)
            self._restart_at = now + delay_seconds
            return f"{self._engine.name} died, starting it again in {delay_seconds:.1f} s"
        if now < self._restart_at:
            return None
        self._started, self._restart_at = now, None
        try:
            self._engine.start(READY_SECONDS)
        except EngineError as error:
            return str(error)
        return f"{self._engine.name} runs again"
