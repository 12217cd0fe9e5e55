"""Pages as HTML. A page is its template whole, or one block of it: `?part=NAME` is what a page asks for to bring a part
of itself up to date.
"""

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import Depends, Query, Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from services.api.access import Access, Owned
from services.api.problems import NotFoundError
from services.api.window import cited_text, formats, texts
from services.api.window.assets import Assets
from services.api.window.headers import OF_PAGES
from services.api.window.rich_text import rich
from shared.store.reading import inbox
from shared.version import vigil_version

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
        for filters in (formats.FILTERS, texts.FILTERS, cited_text.FILTERS):
            self._environment.filters.update(filters)
        self._environment.filters["rich"] = rich
        self._environment.globals.update(asset=assets.url, version=vigil_version())
        self._environment.globals["address"] = cited_text.address
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
            unread = await inbox.count_unread(self._access.session, self._access.owner_id)
        known = {
            "caller": self._access.caller,
            "path": self._request.url.path,
            "query": self._request.query_params,
            "unread": unread,
        }
        return self._pages.answer(template, known | context, part=self.part, status=status)


Answering = Annotated[Page, Depends()]
