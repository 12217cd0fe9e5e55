"""An answer, a call of the model and a page cross no more files and functions than recorded, by a tenth."""

from pathlib import Path

from bench.routes import GOALS, count_routes, find_growth, load_recorded


async def test_routes_do_not_grow(database_url: str, tmp_path: Path) -> None:
    counts = (await count_routes(database_url, tmp_path)).medians()
    assert counts.keys() == GOALS.keys()
    assert all(count.files and count.functions for count in counts.values())
    growth = find_growth(load_recorded(), counts)
    assert growth == [], "shorten the route, or record it with `make routes ARGS=--accept`"
