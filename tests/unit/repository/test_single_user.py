"""The check for modules of `shared` with a single user finds such modules and stale exceptions."""

import grimp

from tests.support.single_user import STAY, faults, single_users


def graph_of(*imports: tuple[str, str]) -> grimp.ImportGraph:
    graph = grimp.ImportGraph()
    for importer, imported in imports:
        graph.add_import(importer=importer, imported=imported)
    return graph


def test_a_module_used_by_one_service_is_reported() -> None:
    graph = graph_of(
        ("services.api.app", "shared.lists"),
        ("services.api.resources", "shared.lists"),
        ("shared.lists", "shared.pages"),
        ("services.api.app", "shared.errors"),
        ("cli.main", "shared.errors"),
    )
    graph.add_module("shared.unused")
    assert single_users(graph) == {
        "shared.lists": "services.api",
        "shared.pages": "services.api",
        "shared.unused": "",
    }


def test_indirect_users_count() -> None:
    graph = graph_of(
        ("services.api.app", "shared.graph"),
        ("services.observer.app", "shared.graph"),
        ("shared.graph", "shared.words"),
    )
    assert single_users(graph) == {}


def test_faults_state_the_remedy() -> None:
    users = dict.fromkeys(STAY, "cli") | {"shared.lists": "services.api", "shared.x": ""}
    assert [fault.partition(":")[0] for fault in faults(users)] == [
        "shared.lists is used by services.api alone",
        "shared.x is used by no service",
    ]
    assert any("take it out of STAY" in fault for fault in faults({}))
