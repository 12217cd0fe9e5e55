"""Where everybody listens: known ports where they are free, and never two on one."""

import socket

from cli.local.household import ACTORS, API, SANDBOX
from cli.local.ports import free_port
from cli.local.roster import DEMO_PORTS, NATS, POSTGRES, demo_ports, taken, usual_ports


def test_everybody_has_a_port_of_its_own() -> None:
    for ports in (usual_ports(8080), demo_ports()):
        assert {*ACTORS, API, SANDBOX, NATS, POSTGRES} <= set(ports)
        assert len(set(ports.values())) == len(ports)


def test_demos_keep_away_from_the_usual_ports() -> None:
    assert set(demo_ports().values()) & set(usual_ports(8080).values()) == set()
    assert min(demo_ports().values()) >= DEMO_PORTS.start


def test_a_port_that_is_taken_is_left_to_its_owner_and_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        chosen = usual_ports(port)
        assert chosen[API] != port
        assert port in taken(chosen, port)


def test_the_port_that_a_person_asks_for_is_used() -> None:
    port = free_port()
    assert usual_ports(port)[API] == port
