"""Loads the corpus in the background, while the server already accepts requests."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from sandbox.corpus import CorpusError
from sandbox.http.calls import RefusedError
from sandbox.search import SearchIndex

CHECK_SECONDS: Final = 1.0
"""Minimum time between two checks whether the corpus has changed."""

log = logging.getLogger(__name__)


class CorpusLoader:
    """Loads the index on a thread of its own; requests that need it wait. It is loaded again when the corpus changes."""

    def __init__(
        self,
        load: Callable[[], SearchIndex],
        on_failure: Callable[[CorpusError], None],
        fingerprint: Callable[[], str] | None = None,
    ) -> None:
        """`fingerprint` differs when the corpus has changed; None for a corpus that never does."""
        self._load = load
        self._on_failure = on_failure
        self._fingerprint = fingerprint
        self._loaded_from: str | None = None
        self._checked_at = 0.0
        self._index: SearchIndex | None = None
        self._loading: asyncio.Task[None] | None = None
        self._reloading: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to load. Must be called in the server's event loop."""
        self._loading = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Wait until loading ends, then close the index."""
        if self._reloading:
            await asyncio.gather(self._reloading, return_exceptions=True)
        if self._loading:
            await asyncio.gather(self._loading, return_exceptions=True)
        if self._index is not None:
            self._index.close()

    @property
    def loaded(self) -> SearchIndex | None:
        """The index if it is loaded, else None."""
        return self._index

    async def index(self) -> SearchIndex:
        """Wait for the index. Use it before the next `await`: then it may have been replaced.

        Raises RefusedError (503) if the corpus cannot be loaded.
        """
        if self._loading is None:
            raise RefusedError(503, {"detail": {"error": "The sandbox has not been started."}})
        if self._index is not None and self._fingerprint is not None:
            if self._reloading is None and time.monotonic() - self._checked_at >= CHECK_SECONDS:
                self._reloading = asyncio.create_task(self._reload_if_changed())
            if self._reloading is not None:
                await asyncio.shield(self._reloading)
        try:
            await asyncio.shield(self._loading)
        except CorpusError as error:
            raise RefusedError(503, {"detail": {"error": str(error)}}) from error
        assert self._index is not None, "loading ends with an index or an error"
        return self._index

    async def _run(self) -> None:
        try:
            if self._fingerprint is not None:
                self._loaded_from = await asyncio.to_thread(self._fingerprint)
                self._checked_at = time.monotonic()
            self._index = await asyncio.to_thread(self._load)
        except CorpusError as error:
            self._on_failure(error)
            raise

    async def _reload_if_changed(self) -> None:
        """A corpus that cannot be loaded any more stays as it was."""
        assert self._fingerprint is not None
        try:
            fingerprint = await asyncio.to_thread(self._fingerprint)
            if fingerprint != self._loaded_from:
                # Noted before: what is changed while it is loaded is loaded the next time.
                self._loaded_from = fingerprint
                index = await asyncio.to_thread(self._load)
                old, self._index = self._index, index
                if old is not None:
                    old.close()
        except (CorpusError, OSError) as error:
            log.warning("The corpus has changed and cannot be loaded: %s", error)
        finally:
            self._checked_at = time.monotonic()
            self._reloading = None
