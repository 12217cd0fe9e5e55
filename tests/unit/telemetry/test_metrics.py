"""The registry of a process: names, bounded labels, what an unavailable provider means, and forks."""

import multiprocessing
import re
from multiprocessing.connection import Connection

import pytest
from prometheus_client import Counter, Gauge
from prometheus_client.parser import text_string_to_metric_families

from shared.telemetry import metrics
from shared.telemetry.metrics import OTHER, BoundedLabel, InstallationGauges, ProviderHealth
from tests.support.observability.scraping import Counting, parse, value

UNITS = re.compile(r"vigil_[a-z_]+")
BOUNDED = {
    "consumer",
    "reason",
    "code",
    "kind",
    "outcome",
    "phase",
    "model",
    "provider",
    "use",
    "version",
    "le",
}


def families() -> list[tuple[str, str, set[str]]]:
    registries = [metrics.REGISTRY, InstallationGauges().registry]
    text = metrics.exposition(registries).decode()
    return [
        (family.name, family.type, {label for sample in family.samples for label in sample.labels})
        for family in text_string_to_metric_families(text)
        if not family.name.startswith("process_")
    ]


def test_every_metric_has_a_conventional_name_a_description_and_no_unbounded_label() -> None:
    metrics.count_answer("a-model", input_tokens=1, usd=0.1)
    assert len(families()) > 30
    for name, kind, labels in families():
        assert UNITS.fullmatch(name), name
        assert labels <= BOUNDED, name
        if kind == "histogram":
            assert name.endswith("_seconds"), name
    text = metrics.exposition([metrics.REGISTRY, InstallationGauges().registry]).decode()
    described = set(re.findall(r"^# HELP (\S+) \S", text, re.M))
    assert {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")} == described
    assert "_created" not in text


def test_a_bounded_label_keeps_the_first_values_and_merges_the_rest() -> None:
    label = BoundedLabel(3)
    values = [f"model-{number}" for number in range(1000)]
    assert {label(name) for name in values} == {"model-0", "model-1", "model-2", OTHER}
    assert label("model-1") == "model-1"
    assert label("model-999") == OTHER


def test_thousands_of_models_give_few_series() -> None:
    for number in range(3000):
        metrics.count_answer(f"model-{number}", input_tokens=1, output_tokens=1, usd=0.01)
    text = metrics.exposition([metrics.REGISTRY]).decode()
    assert text.count("vigil_spent_usd_total{") <= 22
    assert text.count("vigil_tokens_total{") <= 4 * 22


def test_an_answer_counts_its_tokens_by_kind_and_its_cost() -> None:
    counting = Counting()
    metrics.count_answer(None, input_tokens=0, usd=0.25)
    assert counting.gains("vigil_spent_usd_total") == pytest.approx({("search",): 0.25})
    assert counting.gains("vigil_tokens_total") == {}


@pytest.mark.parametrize("event", ["failed", "rate_limited", "answered"])
def test_a_provider_is_unavailable_until_it_answers_or_was_not_used_for_long(event: str) -> None:
    now = 0.0
    health = ProviderHealth(lambda: now)
    assert not health.is_unavailable("model")
    health.failed("model")
    assert health.is_unavailable("model")
    assert not health.is_unavailable("search")
    now = 100.0
    getattr(health, event)("model")
    assert health.is_unavailable("model") == (event == "failed")
    now += metrics.UNAVAILABLE_SECONDS
    assert not health.is_unavailable("model")


def test_another_server_that_answers_does_not_hide_that_one_is_away() -> None:
    """With several servers (VIGIL_PROVIDERS), as calls alternate between them."""
    health = ProviderHealth(lambda: 0.0)
    health.failed("model", "local")
    health.answered("model", "OpenAI")
    health.rate_limited("model", "OpenAI")
    assert health.is_unavailable("model")
    health.answered("model", "local")
    assert not health.is_unavailable("model")


def test_the_state_of_an_installation_that_was_never_read_has_an_age() -> None:
    now = 10.0
    gauges = InstallationGauges(lambda: now)
    now = 25.0
    samples = parse(metrics.exposition([gauges.registry]).decode())
    assert value(samples, "vigil_installation_state_age_seconds") == 15


def test_the_state_of_an_installation_that_was_never_read_is_not_zero() -> None:
    text = metrics.exposition([InstallationGauges().registry]).decode()
    unread = re.findall(r"^(vigil_\w+) (\S+)$", text, re.M)
    values = {
        name: number for name, number in unread if name != "vigil_installation_state_age_seconds"
    }
    assert set(values.values()) == {"NaN"}
    assert {f"vigil_{name}" for name in metrics.STATE_GAUGES} <= set(values)


def _count_in_child(sender: Connection) -> None:
    counting = Counting()
    metrics.MODEL_CALLS.labels("observer", "answered").inc(5)
    sender.send(counting.gained("vigil_model_calls_total", phase="observer", outcome="answered"))
    text = metrics.exposition([metrics.REGISTRY]).decode()
    sender.send(value(parse(text), "process_resident_memory_bytes"))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_counts_for_itself() -> None:
    """As the services of one machine are forked from one process that has imported the metrics."""
    counting = Counting()
    context = multiprocessing.get_context("fork")
    for _ in range(2):
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=_count_in_child, args=(sender,), daemon=True)
        child.start()
        try:
            assert receiver.poll(30)
            assert receiver.recv() == 5
            assert receiver.recv() > 0
            child.join(30)
            assert child.exitcode == 0
        finally:
            child.kill()
            child.join()
    assert counting.gained("vigil_model_calls_total", phase="observer", outcome="answered") == 0


def test_a_metric_cannot_be_registered_twice() -> None:
    with pytest.raises(ValueError, match="Duplicated"):
        Counter("vigil_model_calls", "Again.", registry=metrics.REGISTRY)
    with pytest.raises(ValueError, match="Duplicated"):
        Gauge("vigil_database_up", "Again.", registry=metrics.REGISTRY)
