"""The corpus, loaded behind a server that already listens."""

import asyncio
from collections.abc import Callable

from sandbox.corpus import CorpusError
from sandbox.http.call import RefusedError
from sandbox.search import SearchIndex


class CorpusShelf:
    """Loads once, on a thread of its own; requests that need the index wait for it."""

    def __init__(
        self, load: Callable[[], SearchIndex], on_failure: Callable[[CorpusError], None]
    ) -> None:
        self._load = load
        self._on_failure = on_failure
        self._loading: asyncio.Task[SearchIndex] | None = None

    def start(self) -> None:
        """Begin to load. Must be called in the server's event loop."""
        self._loading = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Wait for the load to end, and close."""
        if self._loading:
            (loaded,) = await asyncio.gather(self._loading, return_exceptions=True)
            if isinstance(loaded, SearchIndex):
                loaded.close()

    @property
    def loaded(self) -> SearchIndex | None:
        """The index once it is there."""
        task = self._loading
        done = task is not None and task.done() and not task.cancelled() and not task.exception()
        return task.result() if task and done else None

    async def index(self) -> SearchIndex:
        """The index, waited for; RefusedError (503) where the corpus could not be loaded."""
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
