"""Loads corpora in the background, while the server already accepts requests."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from sandbox.corpus import CorpusError, fingerprint
from sandbox.corpus.registry import AddedCorpus
from sandbox.http.calls import RefusedError
from sandbox.search import SearchIndex, open_index

CHECK_SECONDS: Final = 1.0
"""Minimum time between two checks whether the corpus has changed."""

log = logging.getLogger(__name__)


def _refusal(status: int, message: str) -> RefusedError:
    """In the formats of Tavily and OpenAI."""
    return RefusedError(status, {"detail": {"error": message}, "error": {"message": message}})


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
            raise _refusal(503, "The sandbox has not been started.")
        if self._index is not None and self._fingerprint is not None:
            if self._reloading is None and time.monotonic() - self._checked_at >= CHECK_SECONDS:
                self._reloading = asyncio.create_task(self._reload_if_changed())
            if self._reloading is not None:
                await asyncio.shield(self._reloading)
        try:
            await asyncio.shield(self._loading)
        except CorpusError as error:
            raise _refusal(503, str(error)) from error
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


class Corpora:
    """The sandbox's own corpus, and those that its registry has by name, which are loaded at the first request."""

    def __init__(
        self,
        own: CorpusLoader,
        added: Callable[[], Mapping[str, AddedCorpus]] = dict,
        load: Callable[[Path], SearchIndex] = open_index,
    ) -> None:
        """`added` gives the corpora by name. Raises CorpusError, as does `load`."""
        self.own = own
        self._added = added
        self._load = load
        self._loaders: dict[str, CorpusLoader] = {}

    async def index(self, name: str | None = None) -> SearchIndex:
        """Wait for the index of a corpus, as `CorpusLoader.index`; None is the sandbox's own.

        Raises RefusedError (400) if there is no corpus of that name, and (503) if it cannot be loaded.
        """
        if name is None:
            return await self.own.index()
        if name not in self._loaders:
            self._loaders[name] = self._open(name)
            self._loaders[name].start()
        loader = self._loaders[name]
        try:
            return await loader.index()
        except RefusedError:
            # The folder may be readable again at the next request.
            if self._loaders.get(name) is loader:
                del self._loaders[name]
            raise

    def find(self, name: str) -> AddedCorpus | None:
        """The corpus of that name; None if there is none. Raises RefusedError (503) if the list cannot be read."""
        try:
            return self._added().get(name)
        except CorpusError as error:
            raise _refusal(503, str(error)) from error

    async def stop(self) -> None:
        """Close the indexes."""
        await asyncio.gather(*(loader.stop() for loader in (self.own, *self._loaders.values())))

    def _open(self, name: str) -> CorpusLoader:
        added = self.find(name)
        if added is None:
            raise _refusal(
                400,
                f"The sandbox has no corpus {name!r}: add it with `vigil agent create --corpus`.",
            )
        return CorpusLoader(
            partial(self._load, added.folder), lambda _: None, partial(fingerprint, added.folder)
        )
