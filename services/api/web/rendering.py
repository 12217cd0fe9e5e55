"""Pages as HTML. A page is its template whole, or one block of it: `?part=NAME` is what a page asks for to bring a part
of itself up to date.
"""

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from services.api.auth.dependencies import Access, Owned
from services.api.http.problem_details import NotFoundError
from services.api.paths import ASSETS
from services.api.queries import notifications
from services.api.web import filters, text
from services.api.web.text import rich
from shared.version import vigil_version

router = APIRouter(include_in_schema=False)

STATIC: Final = Path(__file__).parent / "static"
VENDOR: Final = Path(__file__).parent / "vendor"
STYLES: Final = "vigil.css"
"""All style sheets as one: `static/styles/*.css` in the order of their names."""
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FOR_EVER: Final = "public, max-age=31536000, immutable"
_HASH_CHARACTERS: Final = 12


@dataclass(frozen=True)
class Asset:
    content: bytes
    compressed: bytes
    media_type: str

    @classmethod
    def of(cls, name: str, content: bytes) -> "Asset":
        # Without a time: the same content is the same bytes.
        compressed = gzip.compress(content, mtime=0)
        return cls(content, compressed, _TYPES[Path(name).suffix])


class Assets:
    """Read once, when the api starts."""

    def __init__(self) -> None:
        files = {path.name: path.read_bytes() for path in _files()}
        sheets = sorted((STATIC / "styles").glob("*.css"))
        files[STYLES] = b"\n".join(sheet.read_bytes() for sheet in sheets)
        self._assets = {name: Asset.of(name, content) for name, content in files.items()}
        whole = sha256(b"\0".join(files[name] for name in sorted(files)))
        self._hash = whole.hexdigest()[:_HASH_CHARACTERS]

    @property
    def are_complete(self) -> bool:
        """Whether the libraries are there; without them pages stand still."""
        return "htmx.min.js" in self._assets

    def url(self, name: str) -> str:
        """Raises KeyError where there is none of that name."""
        if name not in self._assets:
            raise KeyError(name)
        return f"{ASSETS}/{self._hash}/{name}"

    def find(self, hashed: str, name: str) -> Asset | None:
        return self._assets.get(name) if hashed == self._hash else None


@router.get(f"{ASSETS}/{{hashed}}/{{name}}")
async def show(request: Request, hashed: str, name: str) -> Response:
    assets: Assets = request.app.state.assets
    asset = assets.find(hashed, name)
    if asset is None:
        raise NotFoundError("asset", name)
    headers = {
        "Cache-Control": _FOR_EVER,
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
    }
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(asset.compressed, HTTPStatus.OK, headers, asset.media_type)
    return Response(asset.content, HTTPStatus.OK, headers, asset.media_type)


def _files() -> list[Path]:
    own = [*STATIC.glob("*.js"), *STATIC.glob("*.svg")]
    return [*own, *VENDOR.glob("*.js"), *VENDOR.glob("*.css")]


def _listed(policy: Mapping[str, str]) -> str:
    return "; ".join(f"{of} {what}" for of, what in policy.items())


_POLICY: Final = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self'",
    "font-src": "'self'",
    "connect-src": "'self'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
    "base-uri": "'none'",
}

_WITHOUT_SCRIPTS: Final = {
    of: what for of, what in _POLICY.items() if of not in ("script-src", "connect-src", "font-src")
}

OF_PAGES: Final = {
    "Content-Security-Policy": _listed(_POLICY),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    # Not no-referrer, by which browsers would say of a form that it comes from nowhere.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # What stands there is one user's; the pictures and scripts have headers of their own.
    "Cache-Control": "private, no-store",
    "Vary": "Cookie, HX-Request",
}
OF_SECRET_PAGES: Final = {
    **OF_PAGES,
    "Content-Security-Policy": _listed(_WITHOUT_SCRIPTS),
    "Cache-Control": "no-store",
}
"""Of pages with a secret in their address, where no script runs that could read it."""


TEMPLATES: Final = Path(__file__).parent / "templates"


class Pages:
    """The templates of the window. Give one to each process."""

    def __init__(self, assets: Assets) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        for group in (filters.FORMAT_FILTERS, filters.TEXT_FILTERS, text.FILTERS):
            self._environment.filters.update(group)
        self._environment.filters["rich"] = rich
        self._environment.globals.update(asset=assets.url, version=vigil_version())
        self._environment.globals["address"] = text.address
        # Global, for a block that is rendered alone has nothing of what its template imports.
        self._environment.globals["ui"] = self._environment.get_template("parts.html").module

    def html(self, template: str, context: dict[str, Any], part: str | None = None) -> str:
        """Raises NotFoundError where the page has no such part."""
        found = self._environment.get_template(template)
        if part is None:
            return found.render(context)
        block = found.blocks.get(part)
        if block is None:
            raise NotFoundError("part", part)
        return "".join(block(found.new_context(context)))

    def answer(
        self,
        template: str,
        context: dict[str, Any],
        *,
        part: str | None = None,
        status: HTTPStatus = HTTPStatus.OK,
        headers: Mapping[str, str] = OF_PAGES,
    ) -> HTMLResponse:
        return HTMLResponse(self.html(template, context, part), status, headers=headers)


class Page:
    """What a page's route answers with."""

    def __init__(
        self,
        request: Request,
        access: Owned,
        part: Annotated[str | None, Query(max_length=40)] = None,
    ) -> None:
        self._request = request
        self._access: Access = access
        self._pages: Pages = request.app.state.pages
        self.part = part

    async def answer(
        self, template: str, *, status: HTTPStatus = HTTPStatus.OK, **context: Any
    ) -> HTMLResponse:
        """`template` with `context`, and what every page knows: who looks, at what address, and what is unread."""
        unread = 0
        if self.part is None:
            unread = await notifications.count_unread(self._access.session, self._access.owner_id)
        known = {
            "caller": self._access.caller,
            "path": self._request.url.path,
            "query": self._request.query_params,
            "unread": unread,
        }
        return self._pages.answer(template, known | context, part=self.part, status=status)


Answering = Annotated[Page, Depends()]
