"""Loads the corpus in the background, while the server already accepts requests."""

import asyncio
from collections.abc import Callable

from sandbox.corpus import CorpusError
from sandbox.http.calls import RefusedError
from sandbox.search import SearchIndex


class CorpusLoader:
    """Loads the index once, on its own thread; requests that need it wait."""

    def __init__(
        self, load: Callable[[], SearchIndex], on_failure: Callable[[CorpusError], None]
    ) -> None:
        self._load = load
        self._on_failure = on_failure
        self._loading: asyncio.Task[SearchIndex] | None = None

    def start(self) -> None:
        """Start to load. Must be called in the server's event loop."""
        self._loading = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Wait until loading ends, then close the index."""
        if self._loading:
            (result,) = await asyncio.gather(self._loading, return_exceptions=True)
            if isinstance(result, SearchIndex):
                result.close()

    @property
    def loaded(self) -> SearchIndex | None:
        """The index if it is loaded, else None."""
        task = self._loading
        is_loaded = (
            task is not None and task.done() and not task.cancelled() and not task.exception()
        )
        return task.result() if task and is_loaded else None

    async def index(self) -> SearchIndex:
        """Wait for the index. Raises RefusedError (503) if the corpus cannot be loaded."""
        if self._loading is None:
            raise RefusedError(503, {"detail": {"error": "The sandbox has not been started."}})
        try:
            return await asyncio.shield(self._loading)
        except CorpusError as error:
            raise RefusedError(503, {"detail": {"error": str(error)}}) from error

    async def _run(self) -> SearchIndex:
        try:
            return await asyncio.to_thread(self._load)
        except CorpusError as error:
            self._on_failure(error)
            raise
