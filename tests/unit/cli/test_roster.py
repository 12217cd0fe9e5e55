"""Where everybody listens: known ports where they are free, and never two on one."""

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from cli.local.members import ACTORS, API, DEMO_PORTS, NATS, SANDBOX, demo_ports, taken, usual_ports
from cli.local.ports import free_port


def test_everybody_has_a_port_of_its_own() -> None:
    for ports in (usual_ports(8080), demo_ports()):
        assert {*ACTORS, API, SANDBOX, NATS} <= set(ports)
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


def test_installations_of_two_processes_do_not_choose_the_same_ports() -> None:
    """What only the supervisor asks: else it would take another installation's services for its own."""
    code = "from cli.local.members import *; print(*(usual_ports(0)[name] for name in ACTORS))"
    with ThreadPoolExecutor() as pool:
        chosen = pool.map(subprocess.check_output, [[sys.executable, "-c", code]] * 2)
        first, second = ({*map(int, ports.split())} for ports in chosen)
    assert len(first) == len(second) == len(ACTORS)
    assert first & second == set()
