"""Port assignment: the usual ports where they are free, and no port twice."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from cli.local.members import (
    API,
    CONSUMER_SERVICES,
    DEMO_PORTS,
    NATS,
    SANDBOX,
    busy_ports,
    demo_ports,
    usual_ports,
)
from cli.local.ports import choose_port, free_port, free_ports


def test_every_member_has_its_own_port() -> None:
    for ports in (usual_ports(8080), demo_ports()):
        assert {*CONSUMER_SERVICES, API, SANDBOX, NATS} <= set(ports)
        assert len(set(ports.values())) == len(ports)


def test_demo_ports_do_not_overlap_with_the_usual_ports() -> None:
    assert set(demo_ports().values()) & set(usual_ports(8080).values()) == set()
    assert min(demo_ports().values()) >= DEMO_PORTS.start


def test_a_port_in_use_is_avoided_and_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ports = usual_ports(port)
        assert ports[API] != port
        assert port in busy_ports(ports, port)


def test_the_requested_port_is_used() -> None:
    port = free_port()
    assert usual_ports(port)[API] == port


def test_installations_of_two_processes_do_not_choose_the_same_ports() -> None:
    """Only the supervisor calls these ports; it could mistake another installation's services for its own."""
    code = "from cli.local.members import *; print(*(usual_ports(0)[name] for name in CONSUMER_SERVICES))"
    with ThreadPoolExecutor() as pool:
        outputs = pool.map(subprocess.check_output, [[sys.executable, "-c", code]] * 2)
        first, second = ({*map(int, ports.split())} for ports in outputs)
    assert len(first) == len(second) == len(CONSUMER_SERVICES)
    assert first & second == set()


@pytest.fixture
def used_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_free_port_can_be_listened_on() -> None:
    with socket.create_server(("127.0.0.1", free_port())):
        pass


def test_free_ports_differ() -> None:
    assert len(set(free_ports(50))) == 50


def test_the_preferred_port_is_used_if_it_is_free() -> None:
    preferred = free_port()
    assert choose_port(preferred) == preferred


def test_a_port_in_use_is_replaced(used_port: int) -> None:
    port = choose_port(used_port)
    assert port != used_port
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_a_port_in_use_on_all_addresses_is_replaced() -> None:
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        assert choose_port(port) != port


def test_a_reserved_port_is_avoided() -> None:
    preferred = free_port()
    assert choose_port(preferred, avoid=[preferred]) != preferred
