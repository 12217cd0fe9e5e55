import socket
from collections.abc import Iterator

import pytest

from cli.local.ports import choose_port, free_port, free_ports


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
