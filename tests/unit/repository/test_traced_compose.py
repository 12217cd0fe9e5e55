"""The cluster passes on the variables of OpenTelemetry that a collector elsewhere requires."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_compose_passes_on_where_the_collector_is_and_its_key() -> None:
    passed_on = re.findall(r"^  ((?:OTEL|VIGIL)_\w+):$", (ROOT / "compose.yaml").read_text(), re.M)
    assert {"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS", "VIGIL_TRACE_URL"} <= {
        *passed_on
    }


def test_a_stack_passes_them_on_too() -> None:
    stack = (ROOT / "deploy" / "stack.yaml").read_text()
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS"):
        assert f"  {name}: ${{{name}:-}}\n" in stack
