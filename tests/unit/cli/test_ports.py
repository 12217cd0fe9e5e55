import socket
from collections.abc import Iterator

import pytest

from cli.local.ports import choose_port, free_port, free_ports


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_free_port_can_be_listened_on() -> None:
    with socket.create_server(("127.0.0.1", free_port())):
        pass


def test_free_ports_differ() -> None:
    assert len(set(free_ports(50))) == 50


def test_the_preferred_port_is_taken_where_it_is_free() -> None:
    preferred = free_port()
    assert choose_port(preferred) == preferred


def test_a_taken_port_is_replaced(taken: int) -> None:
    chosen = choose_port(taken)
    assert chosen != taken
    with socket.create_server(("127.0.0.1", chosen)):
        pass


def test_a_port_taken_on_all_addresses_is_replaced() -> None:
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        assert choose_port(port) != port


def test_a_port_that_somebody_else_was_promised_is_avoided() -> None:
    preferred = free_port()
    assert choose_port(preferred, avoid=[preferred]) != preferred
