"""Scrapes of a service's `/metrics`, without a socket."""

from collections.abc import Iterable

import httpx
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from shared.runtime.process import Service, health_app
from shared.telemetry import metrics

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parse(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def scrape(service: Service) -> Samples:
    """What Prometheus would read of `service`, which need not run."""
    transport = httpx.ASGITransport(app=health_app(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        response = await client.get("/metrics")
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/plain")
    return parse(response.text)


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, frozenset(labels.items())))


class Counting:
    """What the counters of this process have gained since the start; other tests count in the same process."""

    def __init__(self, registries: Iterable[CollectorRegistry] = (metrics.REGISTRY,)) -> None:
        self._registries = list(registries)
        self._before = self._read()

    def gained(self, name: str, **labels: str) -> float:
        after, before = value(self._read(), name, **labels), value(self._before, name, **labels)
        return (after or 0.0) - (before or 0.0)

    def gains(self, name: str) -> dict[tuple[str, ...], float]:
        """All gains of that name that are not zero, by the values of their labels in the order of the labels' names."""
        found = {}
        for (sample, labels), after in self._read().items():
            gain = after - self._before.get((sample, labels), 0.0)
            if sample == name and gain:
                found[tuple(text for _, text in sorted(labels))] = gain
        return found

    def _read(self) -> Samples:
        return parse(metrics.exposition(self._registries).decode())
