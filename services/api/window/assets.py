"""What pages load: our own styles and scripts, and the libraries, under addresses that change when any of it does.

They share one hash: scripts name each other by `./`, and would else be asked for under that of the one that names them.
"""

import gzip
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from services.api.problems import NotFoundError
from services.api.window.paths import ASSETS

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
