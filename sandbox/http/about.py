"""The sandbox's description and health, the header on each response, and the key that a request must carry."""

from hmac import compare_digest
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sandbox.http.calls import RefusedError, bearer_key
from sandbox.http.corpus_loader import Corpora, CorpusLoader
from sandbox.http.openai import MODEL
from sandbox.settings import SandboxSettings

HEADER = "x-vigil-sandbox"
DESCRIPTION = (
    "This is the Vigil sandbox, a local stand-in for OpenAI and Tavily. Its model is not a language model: it answers each "
    "request from labelled figures in its text, and reads no prose. Its search finds only documents of its corpora."
)


def about_routes(settings: SandboxSettings, corpora: Corpora) -> list[Route]:
    """`GET /` (description), `GET /health`, and `GET /corpora/{name}`: the owner of a corpus."""
    corpus = corpora.own

    async def about(_: Request) -> Response:
        own = {"name": settings.corpus, "documents": _documents(corpus)}
        return JSONResponse(
            {"name": "Vigil sandbox", "what": DESCRIPTION, "models": [MODEL], "corpus": own}
        )

    async def health(_: Request) -> Response:
        ready = corpus.loaded is not None
        body = {"status": "ready" if ready else "loading", "documents": _documents(corpus)}
        return JSONResponse(body, 200 if ready else 503)

    async def show_corpus(request: Request) -> Response:
        name = request.path_params["name"]
        try:
            added = corpora.find(name)
        except RefusedError as error:
            return JSONResponse(error.body, error.status)
        if added is None:
            return JSONResponse({"name": name}, 404)
        return JSONResponse({"name": name, "owner": added.owner})

    return [
        Route("/", about, methods=["GET"]),
        Route("/health", health, methods=["GET"]),
        Route("/corpora/{name}", show_corpus, methods=["GET"]),
    ]


def _documents(corpus: CorpusLoader) -> int | None:
    return len(corpus.loaded) if corpus.loaded is not None else None


class SandboxHeader:
    """Adds a header to every response, so that the sandbox is not mistaken for the real service."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).append(HEADER, "1")
            await send(message)

        await self._app(scope, receive, send_marked)


PUBLIC_PATH: Final = "/health"
REJECTION: Final = "This sandbox accepts only the key of the Vigil installation that it belongs to."


class KeyRequired:
    """Answers 401 to every request without `key`, except health checks."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._key = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != PUBLIC_PATH:
            key = bearer_key(Request(scope)).encode()
            if not compare_digest(key, self._key):
                body = {"error": {"message": REJECTION, "code": "invalid_api_key"}}
                await JSONResponse(body, 401)(scope, receive, send)
                return
        await self._app(scope, receive, send)
