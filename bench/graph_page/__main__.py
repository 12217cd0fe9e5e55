"""`python -m bench.graph_page`: how fluid the graph page is, beside a plain page of the library that draws it.

An agent has 5,000 nodes and 10,000 edges ($VIGIL_BENCH_NODES; twice as many edges). Chromium opens its graph page, and a
page with nothing but the library, in its default settings, with the same nodes, edges and places in a stage of the same
size. In both, the picture is dragged and zoomed for five seconds, in turns; a frame counts when it draws the graph.
Without a graphics card Chromium draws in software, so the frames a second say little by themselves, and their ratio much.
Where frames are slow, the graph page leaves out edges and labels while the picture moves; the plain page draws them.
Exit code 1 where the graph page has fewer than 30 frames a second and fewer than the plain page, where its thread is
blocked for more than a second at a time while it loads and for longer than that of the plain page, or where a first load
of 1,000 nodes is 300 kB or more.
"""

import asyncio
import json
import os
import signal
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import psycopg
from playwright.async_api import Browser, BrowserContext, Page, Route, async_playwright

from bench.api_process import ApiProcess
from bench.graph_page.crowd import insert_graph
from bench.large import Size, fill
from bench.support import (
    CHROMIUM_ARGUMENTS,
    chromium_path,
    create_owner_token,
    provision,
    running_engines,
)
from shared.runtime.settings import Settings

OWNER: Final = "bench"
ROUNDS: Final = 3
GESTURE_MS: Final = 5_000
SETTLE_TIMEOUT_MS: Final = 180_000
MIN_FRAMES_PER_SECOND: Final = 30
MAX_BLOCKED_MS: Final = 1_000
MAX_FIRST_LOAD_BYTES: Final = 300_000
EMPTY: Final = Size(nodes=1, edges=1, iterations=1, items=1, calls=1)
VIEWPORT: Final = {"width": 1280, "height": 800}

_COUNT_FRAMES: Final = """
  window.drawn = false;
  for (const name of ["drawArrays", "drawArraysInstanced", "drawElements"]) {
    const draw = WebGL2RenderingContext.prototype[name];
    WebGL2RenderingContext.prototype[name] = function (...rest) { window.drawn = true; return draw.apply(this, rest); };
  }
  window.blocked = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.blocked.push(entry.duration);
  }).observe({ type: "longtask", buffered: true });
"""
_GESTURE: Final = """async (most) => {
  const stage = document.querySelector(".sigma-mouse");
  const { left, top, width, height } = stage.getBoundingClientRect();
  const [x, y] = [left + width / 2, top + height / 2];
  const send = (kind, dx, dy) => stage.dispatchEvent(new MouseEvent(kind, {
    clientX: x + dx, clientY: y + dy, button: 0, buttons: 1, bubbles: true, cancelable: true, view: window,
  }));
  const zoom = (delta) => stage.dispatchEvent(new WheelEvent("wheel", {
    clientX: x, clientY: y, deltaY: delta, bubbles: true, cancelable: true, view: window,
  }));
  const next = () => new Promise(requestAnimationFrame);
  await next();
  let [frames, isHeld, at] = [0, false, 0];
  const startedAt = performance.now();
  window.drawn = false;
  while ((at = performance.now() - startedAt) < most) {
    const isDragging = at < most / 2;
    if (isDragging !== isHeld) { send(isDragging ? "mousedown" : "mouseup", 0, 0); isHeld = isDragging; }
    if (isDragging) send("mousemove", 120 * Math.sin(at / 250), 80 * Math.cos(at / 330));
    else zoom(at % 1200 < 600 ? -120 : 120);
    await next();
    if (window.drawn) frames += 1;
    window.drawn = false;
  }
  return (frames * 1000) / (performance.now() - startedAt);
}"""
_PLAIN_PAGE: Final = """<!doctype html><title>Plain</title>
<div id="plain" style="width: {width}px; height: {height}px"></div>
<script src="{assets}/graphology.umd.min.js"></script><script src="{assets}/sigma.min.js"></script>
<script type="module">
  import {{ Drawing }} from "{assets}/graph-data.js";
  import {{ Layout }} from "{assets}/graph-layout.js";
  const drawing = new Drawing("{agent}");
  await drawing.bring("limit={nodes}");
  const colours = new Map();
  drawing.graph.updateEachNodeAttributes((_, node) => {{
    if (!colours.has(node.typeName)) colours.set(node.typeName, `hsl(${{colours.size * 45}} 60% 50%)`);
    return {{ ...node, color: colours.get(node.typeName) }};
  }});
  const settled = () => {{
    new Sigma(drawing.graph, document.getElementById("plain"));
    document.body.dataset.state = "settled";
  }};
  const layout = new Layout(drawing.graph, "{assets}/graph-worker.js", {{ onMove: () => {{}}, onSettled: settled }});
  layout.settle(drawing.graph.nodes(), {width} / {height});
</script>"""


@dataclass(frozen=True)
class Measured:
    frames_per_second: float
    blocked_ms: float
    """The longest time for which the page's thread did nothing else, while it loaded."""


def main() -> int:
    nodes = int(os.environ.get("VIGIL_BENCH_NODES") or 5_000)
    with tempfile.TemporaryDirectory() as home, running_engines(Path(home)) as (postgres, nats):
        settings = Settings(database_url=postgres.url("bench"), nats_url=nats.url, owner=OWNER)
        provision(settings)
        fill(settings.database_url, EMPTY)
        agent_id = _create_agent(settings.database_url, nodes)
        return asyncio.run(_measure(settings, Path(home), agent_id, nodes))


def _create_agent(database_url: str, nodes: int) -> UUID:
    with psycopg.connect(database_url) as connection:
        row = connection.execute("select id from agents limit 1").fetchone()
        assert row is not None
        agent_id: UUID = row[0]
        connection.execute("delete from graph_nodes where agent_id = %s", (agent_id,))
        insert_graph(connection, agent_id, nodes, 2 * nodes)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("vacuum analyze")
    return agent_id


async def _measure(settings: Settings, home: Path, agent_id: UUID, nodes: int) -> int:
    api = ApiProcess(settings, home / "api.log")
    token = await create_owner_token(settings)
    await api.start()
    try:
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=chromium_path(), args=CHROMIUM_ARGUMENTS
            )
            context = await _open_context(browser, api.url, token)
            own, plain = await _alternate(context, agent_id, nodes)
            first_load = await _first_load_bytes(browser, api.url, token, agent_id)
            await browser.close()
    finally:
        await api.end(signal.SIGTERM)
    return _report(nodes, own, plain, first_load)


async def _open_context(browser: Browser, url: str, token: str) -> BrowserContext:
    context = await browser.new_context(
        base_url=url,
        viewport=VIEWPORT,  # type: ignore[arg-type]  # a TypedDict of these two
        extra_http_headers={"Authorization": f"Bearer {token}"},
    )
    await context.add_init_script(_COUNT_FRAMES)
    return context


async def _alternate(
    context: BrowserContext, agent_id: UUID, nodes: int
) -> tuple[list[Measured], list[Measured]]:
    own, plain = [], []
    for _ in range(ROUNDS):
        page = await context.new_page()
        await page.goto(f"/agents/{agent_id}/graph?limit={nodes}")
        await page.locator('#stage[data-state="settled"]').wait_for(timeout=SETTLE_TIMEOUT_MS)
        await page.locator('#stage[data-moving="no"]').wait_for()
        stage = await page.locator("#stage").bounding_box()
        worker = await page.locator("#explorer").get_attribute("data-worker")
        own.append(await _move(page))
        await page.close()
        assert stage is not None
        assert worker is not None
        size = {name: round(stage[name]) for name in ("width", "height")}
        html = _PLAIN_PAGE.format(
            **size, assets=worker.rpartition("/")[0], agent=agent_id, nodes=nodes
        )
        page = await context.new_page()
        await page.route("**/plain", _serving(html))
        await page.goto("/plain")
        await page.locator('body[data-state="settled"]').wait_for(timeout=SETTLE_TIMEOUT_MS)
        plain.append(await _move(page))
        await page.close()
    return own, plain


def _serving(html: str) -> Any:
    async def serve(route: Route) -> None:
        await route.fulfill(body=html, content_type="text/html")

    return serve


async def _move(page: Page) -> Measured:
    blocked: list[float] = await page.evaluate("window.blocked")
    frames: float = await page.evaluate(_GESTURE, GESTURE_MS)
    return Measured(frames, max(blocked, default=0.0))


async def _first_load_bytes(browser: Browser, url: str, token: str, agent_id: UUID) -> int:
    """Bytes on the wire of everything that the page requests until its layout is settled, with an empty cache."""
    context = await _open_context(browser, url, token)
    page = await context.new_page()
    client = await context.new_cdp_session(page)
    await client.send("Network.enable")
    total = 0

    def add(event: dict[str, Any]) -> None:
        nonlocal total
        total += int(event["encodedDataLength"])

    client.on("Network.loadingFinished", add)
    await page.goto(f"/agents/{agent_id}/graph")
    await page.locator('#stage[data-state="settled"]').wait_for(timeout=SETTLE_TIMEOUT_MS)
    await context.close()
    return total


def _report(nodes: int, own: Sequence[Measured], plain: Sequence[Measured], first_load: int) -> int:
    own_frames, plain_frames = (
        statistics.median(each.frames_per_second for each in measured) for measured in (own, plain)
    )
    blocked_ms, plain_blocked_ms = (
        statistics.median(each.blocked_ms for each in measured) for measured in (own, plain)
    )
    ratio = own_frames / plain_frames
    print(f"{nodes:,} nodes, {2 * nodes:,} edges, {ROUNDS} rounds of {GESTURE_MS / 1000:.0f} s")
    for name, measured in (("graph page", own), ("plain page", plain)):
        frames = ", ".join(f"{each.frames_per_second:.1f}" for each in measured)
        print(f"{name}: {frames} frames a second")
    print(f"ratio of the medians: {ratio:.2f}")
    print(
        f"longest block of the page's thread while it loads: {blocked_ms:.0f} ms, plain {plain_blocked_ms:.0f} ms"
    )
    print(f"first load: {first_load / 1000:.0f} kB")
    print(json.dumps({"frames": own_frames, "plain": plain_frames, "ratio": ratio}))
    missed = []
    if own_frames < MIN_FRAMES_PER_SECOND and ratio < 1:
        missed.append(f"{own_frames:.1f} frames a second, and fewer than the plain page")
    if blocked_ms > max(MAX_BLOCKED_MS, plain_blocked_ms):
        missed.append(f"the page's thread is blocked for {blocked_ms:.0f} ms")
    if first_load >= MAX_FIRST_LOAD_BYTES:
        missed.append(f"a first load of {first_load / 1000:.0f} kB")
    print("\n".join(missed) if missed else "All goals are met.")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
