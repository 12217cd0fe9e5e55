"""Renders pages as HTML.

A page is a whole template, or one block of it: `?part=NAME` updates a part of a page.
"""

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Depends, Query, Request
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader, StrictUndefined
from sqlalchemy import Boolean, bindparam, case, func, select
from starlette.responses import HTMLResponse, Response

from services.api.auth.dependencies import Access, OwnedAccess
from services.api.http.problem_details import NotFoundError
from services.api.paths import ASSETS
from services.api.resources.agents.model import find_standing
from services.api.resources.inbox.model import IS_UNREAD
from services.api.resources.iterations.outcomes import outcome_of
from services.api.resources.operate.outages import read_outages
from services.api.web import filters, libraries, text
from services.api.web.text import render_markdown
from shared.database.statements import CompiledStatement
from shared.database.tables import DeadLetter, InboxItem
from shared.errors import USED_UP
from shared.runtime.settings import Settings
from shared.schemas.base import ProviderOutage
from shared.version import vigil_version

router = APIRouter(include_in_schema=False)

STATIC: Final = Path(__file__).parent / "static"
VENDOR: Final = Path(__file__).parent / "vendor"
STYLES: Final = "vigil.css"
"""All style sheets in one: `static/styles/*.css` in the order of their names."""
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_IMMUTABLE: Final = "public, max-age=31536000, immutable"
_HASH_CHARACTERS: Final = 12


@dataclass(frozen=True)
class Asset:
    content: bytes
    compressed: bytes
    media_type: str

    @classmethod
    def of(cls, name: str, content: bytes) -> "Asset":
        # Without a timestamp, so that the same content gives the same bytes.
        compressed = gzip.compress(content, mtime=0)
        return cls(content, compressed, _TYPES[Path(name).suffix])


class Assets:
    """Static files, read once at startup."""

    def __init__(self) -> None:
        files = {path.name: path.read_bytes() for path in _files()}
        sheets = sorted((STATIC / "styles").glob("*.css"))
        files[STYLES] = b"\n".join(sheet.read_bytes() for sheet in sheets)
        self._assets = {name: Asset.of(name, content) for name, content in files.items()}
        digest = sha256(b"\0".join(files[name] for name in sorted(files)))
        self._hash = digest.hexdigest()[:_HASH_CHARACTERS]
        self.urls = {
            name: f"{ASSETS}/{self._hash}/{name}" for name in libraries.NAMES | files.keys()
        }
        """Addresses by name, also of libraries that are not installed."""

    @property
    def are_complete(self) -> bool:
        """Whether the libraries are installed; without them pages have no icons and do not update."""
        return self._assets.keys() >= libraries.NAMES

    def find(self, hashed: str, name: str) -> Asset | None:
        return self._assets.get(name) if hashed == self._hash else None


@router.get(f"{ASSETS}/{{hashed}}/{{name}}")
async def serve_asset(request: Request, hashed: str, name: str) -> Response:
    assets: Assets = request.app.state.assets
    asset = assets.find(hashed, name)
    if asset is None:
        raise NotFoundError("asset", name)
    headers = {
        "Cache-Control": _IMMUTABLE,
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
    }
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(asset.compressed, HTTPStatus.OK, headers, asset.media_type)
    return Response(asset.content, HTTPStatus.OK, headers, asset.media_type)


def _files() -> list[Path]:
    own = [*STATIC.glob("*.js"), *STATIC.glob("*.svg")]
    vendored = [file for suffix in _TYPES for file in VENDOR.glob(f"*{suffix}")]
    return [*own, *vendored]


def _csp_header(policy: Mapping[str, str]) -> str:
    return "; ".join(f"{of} {directive}" for of, directive in policy.items())


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
    of: source for of, source in _POLICY.items() if of not in ("script-src", "connect-src")
}

PAGE_HEADERS: Final = {
    "Content-Security-Policy": _csp_header(_POLICY),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    # Not no-referrer, with which browsers would send the origin "null" with forms.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Pages belong to one user; static files have headers of their own.
    "Cache-Control": "private, no-store",
    "Vary": "Cookie, HX-Request",
}
SECRET_PAGE_HEADERS: Final = {
    **PAGE_HEADERS,
    "Content-Security-Policy": _csp_header(_WITHOUT_SCRIPTS),
    "Cache-Control": "no-store",
}
"""For pages with a secret in their address. They load no scripts, which could read it."""


TEMPLATES: Final = Path(__file__).parent / "templates"
RESOURCES: Final = Path(__file__).parents[1] / "resources"
"""A template is named after its resource and its file: `agents/list.html`."""


class Pages:
    """The templates of the web UI. One instance per process."""

    def __init__(self, assets: Assets) -> None:
        self._environment = Environment(
            loader=ChoiceLoader(
                [
                    FileSystemLoader(TEMPLATES),
                    PrefixLoader(
                        {
                            folder.parent.name: FileSystemLoader(folder)
                            for folder in RESOURCES.glob("*/templates")
                        }
                    ),
                ]
            ),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
            finalize=filters.as_shown,
        )
        for group in (filters.FORMAT_FILTERS, filters.TEXT_FILTERS, text.FILTERS):
            self._environment.filters.update(group)
        self._environment.filters |= {"rich": render_markdown, "outcome": outcome_of}
        self._environment.globals.update(asset=assets.urls.__getitem__, version=vigil_version())
        self._environment.globals["missing_libraries"] = (
            "" if assets.are_complete else f"{libraries.MISSING} {libraries.INSTALL}"
        )
        self._environment.globals["address"] = text.element_address
        self._environment.globals["quota_used_up"] = USED_UP
        # Global, because a block that is rendered alone does not see its template's imports.
        self._environment.globals["ui"] = self._environment.get_template("parts.html").module

    def answer(
        self,
        name: str,
        context: dict[str, Any],
        *,
        part: str | None = None,
        status: HTTPStatus = HTTPStatus.OK,
        headers: Mapping[str, str] = PAGE_HEADERS,
    ) -> HTMLResponse:
        """Renders the template of that name, or one block of it. Raises NotFoundError if it has no such block."""
        template = self._environment.get_template(name)
        if part is None:
            html = template.render(context)
        elif block := template.blocks.get(part):
            html = "".join(block(template.new_context(context)))
        else:
            raise NotFoundError("part", part)
        return HTMLResponse(html, status, headers=headers)


class Counts(NamedTuple):
    """Numbers that the navigation shows beside its entries."""

    unread: int
    """Unread inbox items of the user."""
    failed_messages: int
    """Messages that failed permanently, at most MAX_COUNTED; 0 for users who are no operators."""


MAX_COUNTED: Final = 1_000
_UNREAD: Final = (
    select(func.count())
    .select_from(InboxItem)
    .where(InboxItem.owner_id == bindparam("of_owner"), IS_UNREAD)
    .scalar_subquery()
)
_FAILED: Final = (
    select(func.count())
    .select_from(select(DeadLetter.id).limit(MAX_COUNTED).subquery())
    .scalar_subquery()
)
_COUNTS: Final = CompiledStatement(
    select(_UNREAD, case((bindparam("is_operator", type_=Boolean()), _FAILED), else_=0))
)


async def load_counts(access: Access) -> Counts:
    params = {"of_owner": access.owner_id, "is_operator": access.caller.is_operator}
    return Counts(*await _COUNTS.row(access.session, params))


@dataclass(frozen=True)
class Page:
    """The response of a page's route."""

    request: Request
    access: Access
    part: str | None
    """The requested part of the page; None: all of it."""

    @property
    def settings(self) -> Settings:
        settings: Settings = self.request.app.state.settings
        return settings

    async def answer(
        self, template: str, *, status: HTTPStatus = HTTPStatus.OK, **context: Any
    ) -> HTMLResponse:
        """Renders `template` with `context` and what all pages need: the user, the address, the counts of the
        navigation, and which providers the sandbox replaces; for pages about an agent, also what it does at the moment.
        """
        request, access, is_whole = self.request, self.access, self.part is None
        standing, agent = context.get("standing"), request.path_params.get("agent")
        if standing is None and is_whole and agent is not None:
            standing = await find_standing(access, agent)
        about = str(standing.id) if standing else request.query_params.get("about")
        outages: list[ProviderOutage] = []
        if is_whole or context.get("trouble"):
            owner_id = access.counted_owner_id
            outages = await read_outages(access.session, owner_id, self.settings)
        counts = await load_counts(access) if is_whole else Counts(0, 0)
        common = {
            "about": about,
            "outages": [
                each for each in outages if about is None or about in map(str, each.agent_ids)
            ],
            "sandboxed": request.app.state.sandboxed,
            "caller": access.caller,
            "path": request.url.path,
            "query": request.query_params,
            "counts_of_user": counts,
            "standing": standing,
        }
        pages: Pages = request.app.state.pages
        return pages.answer(template, common | context, part=self.part, status=status)


async def _page(
    request: Request,
    access: OwnedAccess,
    part: Annotated[str | None, Query(max_length=40)] = None,
) -> Page:
    return Page(request, access, part)


PageResponse = Annotated[Page, Depends(_page)]
