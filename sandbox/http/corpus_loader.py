"""Loads corpora in the background, while the server already accepts requests, and again when they change."""

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
    """An error whose body can be read in the formats of Tavily and OpenAI."""
    return RefusedError(status, {"detail": {"error": message}, "error": {"message": message}})


class CorpusLoader:
    """Loads an index on a thread of its own; requests that need it wait."""

    def __init__(self, load: Callable[[], SearchIndex], fingerprint: Callable[[], str]) -> None:
        """`fingerprint` differs when the corpus has changed. Both raise CorpusError."""
        self._load = load
        self._fingerprint = fingerprint
        self._loaded_from: str | None = None
        self._checked_at = -CHECK_SECONDS
        self._lock = asyncio.Lock()
        self.loaded: SearchIndex | None = None

    async def index(self) -> SearchIndex:
        """Wait for the index. Use it before the next `await`: then it may have been replaced.

        A corpus that cannot be loaded any more stays as it was. Raises CorpusError if it never could.
        """
        async with self._lock:
            if self.loaded is None or time.monotonic() - self._checked_at >= CHECK_SECONDS:
                try:
                    await self._refresh()
                except CorpusError as error:
                    if self.loaded is None:
                        raise
                    log.warning("The corpus has changed and cannot be loaded: %s", error)
            assert self.loaded is not None, "loading ends with an index or an error"
            return self.loaded

    def close(self) -> None:
        if self.loaded is not None:
            self.loaded.close()

    async def _refresh(self) -> None:
        state = await asyncio.to_thread(self._fingerprint)
        self._checked_at = time.monotonic()
        if state != self._loaded_from:
            # Noted before: what is changed while it is loaded is loaded the next time.
            self._loaded_from = state if self.loaded else None
            index = await asyncio.to_thread(self._load)
            self.close()
            self._loaded_from = state
            self.loaded = index


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
        try:
            return await (self.own if name is None else self._loader(name)).index()
        except CorpusError as error:
            raise _refusal(503, str(error)) from error

    def find(self, name: str) -> AddedCorpus | None:
        """The corpus of that name; None if there is none. Raises RefusedError (503) if the list cannot be read."""
        try:
            return self._added().get(name)
        except CorpusError as error:
            raise _refusal(503, str(error)) from error

    def close(self) -> None:
        for loader in (self.own, *self._loaders.values()):
            loader.close()

    def _loader(self, name: str) -> CorpusLoader:
        if name not in self._loaders:
            added = self.find(name)
            if added is None:
                message = f"The sandbox has no corpus {name!r}: add it with `vigil agent create --corpus`."
                raise _refusal(400, message)
            self._loaders[name] = CorpusLoader(
                partial(self._load, added.folder), partial(fingerprint, added.folder)
            )
        return self._loaders[name]
