"""Solvers that wait for each other, and are served together."""

import threading

import pytest

from kernelquilt.core import in_step as module
from kernelquilt.core.in_step import current_reader, in_step


class Server:
    """Doubles numbers, and keeps what was served together."""

    def __init__(self, fails_at=None):
        self.rounds = []
        self.fails_at = fails_at

    def __call__(self, requests, number):
        self.rounds.append((number, requests))
        if number == self.fails_at:
            raise KeyboardInterrupt
        return [2 * request for request in requests]


def asking(server, n, raises=None):
    def solve():
        found = [current_reader(server).ask(k) for k in range(n)]
        if raises is not None:
            raise raises
        return found

    return solve


def test_one_round_serves_all_that_are_not_done():
    server = Server()
    results = in_step([asking(server, n) for n in (2, 0, 3)], server)
    assert results == [[0, 2], [], [0, 2, 4]]
    assert server.rounds == [(1, [0, 0]), (2, [1, 1]), (3, [2])]


def test_only_so_many_at_once(monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", 2)
    server = Server()
    assert in_step([asking(server, 2)] * 5, server) == [[0, 2]] * 5
    assert [len(requests) for _, requests in server.rounds] == [2, 2, 2, 2, 1, 1]


def test_a_solver_by_itself_has_the_same_numbers_and_no_thread():
    server = Server()
    here = threading.current_thread()

    def solve():
        return asking(server, 2)() + asking(server, 1)() + [threading.current_thread() is here]

    assert in_step([solve], server) == [[0, 2, 0, True]]
    assert [number for number, _ in server.rounds] == [1, 2, 3]
    asking(server, 1)()  # outside
    assert server.rounds[-1] == (1, [0])


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_an_error_of_one_ends_all(error):
    server = Server()
    before = threading.active_count()
    with pytest.raises(type(error)):
        in_step([asking(server, 9), asking(server, 3, error), asking(server, 9)], server)
    assert len(server.rounds) == 3
    assert threading.active_count() == before


def test_an_interrupt_while_serving_ends_all():
    server = Server(fails_at=2)
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        in_step([asking(server, 9)] * 3, server)
    assert threading.active_count() == before
