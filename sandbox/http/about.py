"""What the sandbox says of itself."""

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sandbox.http.openai import MODEL
from sandbox.http.shelf import CorpusShelf
from sandbox.settings import SandboxSettings

HEADER = "x-vigil-sandbox"
WHAT_IT_IS = (
    "This is the Vigil sandbox, a local stand-in for OpenAI and Tavily. Its model is no language model: it reads what "
    "it is sent and answers from that by fixed rules. Its search knows the documents of one corpus and nothing else."
)


def about_routes(settings: SandboxSettings, shelf: CorpusShelf) -> list[Route]:
    """`GET /` tells people, `GET /health` tells programs."""

    async def about(_: Request) -> Response:
        return JSONResponse(
            {
                "name": "Vigil sandbox",
                "what": WHAT_IT_IS,
                "models": [MODEL],
                "corpus": {"name": settings.corpus, "documents": _documents(shelf)},
                "endpoints": {
                    "openai": [
                        "/v1/chat/completions",
                        "/v1/responses",
                        "/v1/embeddings",
                        "/v1/models",
                    ],
                    "tavily": ["/search", "/extract", "/research"],
                    "control": settings.control,
                },
            }
        )

    async def health(_: Request) -> Response:
        ready = shelf.loaded is not None
        body = {"status": "ready" if ready else "loading", "documents": _documents(shelf)}
        return JSONResponse(body, 200 if ready else 503)

    return [Route("/", about, methods=["GET"]), Route("/health", health, methods=["GET"])]


def _documents(shelf: CorpusShelf) -> int | None:
    return len(shelf.loaded) if shelf.loaded is not None else None


class SandboxHeader:
    """Marks every response, so that nobody takes it for the real service."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Adds the header as the response starts."""

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).append(HEADER, "1")
            await send(message)

        await self._app(scope, receive, send_marked)
