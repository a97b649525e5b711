#!/usr/bin/env python3
"""Clients come back to the geard that was started after theirs was killed: to their sessions and places, by the raw protocol."""
# ctest: Restart.LetsClientsBackWhenTheyAreAllThatMayBeThere -- full
# ctest: Restart.KeepsItsOwnPlaceWhereItMayHaveMoreClientsThanTheServerBefore -- own_place
# ctest: Restart.LetsAClientBackToItsSessionByItsToken -- session
# ctest: Restart.ClosesChannelsThatAReturningClientDoesNotName -- unnamed_channels

import os
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from harness import assert_equal, assert_fails, until  # noqa: E402
from raw_client import ENOTFOUND, EPERM, RawClient  # noqa: E402
from remains import create, kill, line  # noqa: E402


def session(place):
    server = create(place.serve())
    raw = RawClient(server)
    assert_equal(raw.hello(), 0)
    first = raw.session
    channel = raw.open_writer(1)
    kill(server)
    server = place.serve(socket=server.socket)
    raw.token, kept = b"x" * 16, raw.token
    assert_equal(raw.hello([channel]), EPERM)
    raw.token, raw.session = kept, 4711
    assert_equal(raw.hello([channel]), ENOTFOUND)
    raw.session = first
    assert_equal(raw.hello([channel]), 0)
    assert_equal(raw.session, first)
    assert_equal(raw.token, kept)
    assert_equal(line(server)["lanes_open"], 1)
    # The channel is its own still, and what is new has another number.
    second = raw.open_writer(1)
    assert second > channel, (channel, second)
    status, _ = raw.ask(12, struct.pack("<II", channel, 0))
    assert_equal(status, 0)
    # Another process with the right token is refused.
    child = os.fork()
    if child == 0:
        ended = 1
        try:
            ended = 0 if raw.hello([second]) == EPERM else 2
        finally:
            os._exit(ended)
    assert_equal(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
    raw.session = 0
    assert_equal(raw.hello(), 0)
    assert raw.session > first


def full(place):
    config = place.file("geard.toml", "[server]\nclients_max = 2\n")
    server = create(place.serve("--config", config))
    raws = [RawClient(server), RawClient(server)]
    until("gearctl is gone", lambda: all(raw.session or raw.hello() == 0 for raw in raws))
    channels = [raw.open_writer(1) for raw in raws]
    kill(server)
    server = place.serve("--config", config, socket=server.socket)
    for raw, channel in zip(raws, channels):
        assert_fails(server.gearctl("status"), harness.FAILURE, "2 clients", "clients_max")
        assert_equal(raw.hello([channel]), 0)
        assert_equal(raw.ask(12, struct.pack("<II", channel, 0))[0], 0)


def own_place(place):
    server = create(place.serve("--config", place.file("few.toml", "[server]\nclients_max = 1\n")))
    kill(server)
    # The places are those of the ledger, which is adopted.
    server = place.serve("--config", place.file("more.toml", "[server]\nclients_max = 9\n"), socket=server.socket)
    raw = RawClient(server)
    until("gearctl is gone", lambda: raw.session or raw.hello() == 0)
    assert_fails(server.gearctl("status"), harness.FAILURE, "1 clients")


def unnamed_channels(place):
    server = create(place.serve())
    raw = RawClient(server)
    assert_equal(raw.hello(), 0)
    named, _ = raw.open_writer(1), raw.open_writer(1)
    assert_equal(line(server)["lanes_open"], 2)
    kill(server)
    server = place.serve(socket=server.socket)
    assert_equal(line(server)["lanes_open"], 2)
    assert_equal(raw.hello([named]), 0)
    until("the other's lane is closed", lambda: line(server)["lanes_open"] == 1)


harness.main(globals())
