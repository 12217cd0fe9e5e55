"""`python -m tests.support.browser.picture_sheets BEFORE AFTER OUT`: each page of two versions in one picture.

BEFORE and AFTER are folders that `make test-browser` has filled (`build/screenshots`): NAME-light.png, NAME-dark.png
and NAME-narrow.png of each page. A page that only one version has is shown alone. OUT gets NAME.jpg of each.
"""

import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

from tests.support.browser.chromium import chromium

VARIANTS: Final = ("light", "dark", "narrow")
WIDTH: Final = 1200
MAX_HEIGHT: Final = 1400
"""Of a row, so that a long page does not make the others small."""
QUALITY: Final = 45
_STYLE: Final = f"""
body {{ margin: 16px; width: {WIDTH - 32}px; font: 14px sans-serif; background: #fff; }}
.row {{ display: grid; grid-template-columns: 5fr 5fr 2fr; gap: 12px; margin-bottom: 24px; align-items: start; }}
.row > div {{ max-height: {MAX_HEIGHT // 2}px; overflow: hidden; border: 1px solid #bbb; }}
img {{ width: 100%; display: block; }}
h2 {{ margin: 0 0 8px; }}
"""


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 3:
        print(__doc__)
        return 2
    before, after, out = map(Path, arguments)
    out.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        page = browser.new_page(viewport={"width": WIDTH, "height": 800})
        for name in _names(before, after):
            sheet = out / f"{name}.html"
            sheet.write_text(_html(name, {"before": before, "after": after}))
            page.goto(sheet.absolute().as_uri())
            page.screenshot(path=out / f"{name}.jpg", full_page=True, type="jpeg", quality=QUALITY)
            sheet.unlink()
            print(out / f"{name}.jpg")
    return 0


def _names(*folders: Path) -> list[str]:
    suffix = f"-{VARIANTS[0]}"
    return sorted(
        {
            path.stem.removesuffix(suffix)
            for folder in folders
            for path in folder.glob(f"*{suffix}.png")
        }
    )


def _html(name: str, folders: dict[str, Path]) -> str:
    rows = "".join(_row(word, name, folder) for word, folder in folders.items())
    return f"<!doctype html><style>{_STYLE}</style><h1>{escape(name)}</h1>{rows}"


def _row(word: str, name: str, folder: Path) -> str:
    pictures = "".join(_pictures(name, folder))
    return f'<h2>{word}</h2><div class="row">{pictures or "–"}</div>'


def _pictures(name: str, folder: Path) -> Iterator[str]:
    for variant in VARIANTS:
        picture = (folder / f"{name}-{variant}.png").absolute()
        if picture.exists():
            yield f'<div><img src="{picture.as_uri()}" alt=""></div>'


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
