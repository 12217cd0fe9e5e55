"""The check that no module of `shared` belongs to one service finds such a module, and a stale exception."""

import grimp

from tests.support.single_user import STAY, faults, single_users


def graph_of(*imports: tuple[str, str]) -> grimp.ImportGraph:
    graph = grimp.ImportGraph()
    for importer, imported in imports:
        graph.add_import(importer=importer, imported=imported)
    return graph


def test_a_module_that_one_service_uses_is_found() -> None:
    graph = graph_of(
        ("services.api.app", "shared.lists"),
        ("services.api.routers", "shared.lists"),
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


def test_two_users_through_other_modules_are_enough() -> None:
    graph = graph_of(
        ("services.api.app", "shared.graph"),
        ("services.observer.app", "shared.graph"),
        ("shared.graph", "shared.words"),
    )
    assert single_users(graph) == {}


def test_faults_say_what_to_do() -> None:
    found = dict.fromkeys(STAY, "cli") | {"shared.lists": "services.api", "shared.x": ""}
    assert [fault.partition(":")[0] for fault in faults(found)] == [
        "shared.lists is used by services.api alone",
        "shared.x is used by no service",
    ]
    assert any("take it out of STAY" in fault for fault in faults({}))
