#!/usr/bin/env python3
"""geard starts on what a dead one left and finds a table that contradicts itself: it is set aside, and others serve."""
# ctest: Restart.SetsATableAsideThatContradictsItself -- set_aside
# ctest: Restart.KeepsATableThatWasSetAsideThroughACleanEnd -- set_aside_stays
# ctest: Restart.TellsOthersOfNoTableThatIsSetAside -- set_aside_others
# ctest: Restart.SetsATableAsideThatLacksAPart -- lost_part

import os
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from harness import assert_equal, assert_fails, assert_in  # noqa: E402
from raw_client import ECORRUPT, ENOTFOUND, RawClient  # noqa: E402
from remains import SHM, TABLE, create, instance_of, kill, line, parts_of, patch  # noqa: E402


def spoil(server, table):
    """Makes the directory of a dead server's table contradict itself: its own size."""
    name = server.instance
    path = [SHM + one for one in harness.segments_of(name) if one.endswith(f".directory.{table:x}")][0]
    patch(path, 64 + 256 + 8, struct.pack("<Q", 12345))
    return path


def spoiled(place, *options):
    server = create(create(place.serve(*options), "good"), "bad")
    server.instance = instance_of(server)
    table = server.json("table", "describe", "bad")["table_id"]
    kill(server)
    path = spoil(server, table)
    again = place.serve(*options, socket=server.socket)
    again.instance = server.instance
    return again, path


def set_aside(place):
    server, path = spoiled(place)
    assert_equal(line(server, "good")["state"], "open")
    assert_equal(line(server, "bad")["state"], "set aside")
    assert_in("set aside", server.gearctl("table", "ls").stdout)
    assert_fails(server.gearctl("table", "describe", "bad"), harness.FAILURE, "set aside", "12345",
                 "GEAR_ECORRUPT")
    assert_fails(server.gearctl("table", "create", "bad", *TABLE), harness.FAILURE, "set aside",
                 "GEAR_EEXISTS")
    assert os.path.exists(path)
    assert_equal(server.gearctl("table", "rm", "bad").returncode, harness.OK)
    assert not os.path.exists(path)
    assert_equal(line(server, "bad"), None)
    create(server, "bad")
    assert_equal(line(server, "bad")["state"], "open")


def set_aside_others(place):
    if os.geteuid() != 0:
        raise harness.Skip("needs root, to be two users")
    server, path = spoiled(place, "--access", "any")
    table = int(path.rsplit(".", 1)[1], 16)
    os.chmod(place.path, 0o755)
    raw = RawClient(server)

    def names_and_attach():
        assert_equal(raw.hello(), 0)
        return raw.ask(8, b""), raw.ask(4, struct.pack("<Q16s", table, b""))[0]

    assert_equal(names_and_attach(), ((0, b"good\0bad\0"), ECORRUPT))
    child = os.fork()
    if child == 0:
        ended = 1
        try:
            os.setgroups([])
            os.setresgid(61001, 61001, 61001)
            os.setresuid(61001, 61001, 61001)
            raw.session = 0
            ended = 0 if names_and_attach() == ((0, b""), ENOTFOUND) else 2
        finally:
            os._exit(ended)
    assert_equal(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
    assert_equal(server.gearctl("table", "rm", "bad").returncode, harness.OK)


def set_aside_stays(place):
    server, path = spoiled(place)
    assert_equal(server.stop(), harness.OK)
    assert_equal(len(harness.segments_of(server.instance)), 2)
    instance = server.instance
    server = place.serve(socket=server.socket)
    assert_equal([one["name"] for one in server.json("table", "ls")["tables"]], ["bad"])
    # A table made now is not taken for it.
    create(server, "good")
    assert_equal(line(server, "good")["state"], "open")
    kill(server)
    server = place.serve(socket=server.socket)
    assert_equal(line(server, "bad")["state"], "set aside")
    assert_equal(server.gearctl("table", "rm", "bad").returncode, harness.OK)
    assert_equal(server.stop(), harness.OK)
    assert_equal(harness.segments_of(instance), [])


def lost_part(place):
    server = create(create(place.serve(), "good"), "t", "--payload-isolation", "per_writer")
    name, lost = instance_of(server), parts_of(server)[3]
    kill(server)
    os.unlink(lost)
    server = place.serve(socket=server.socket)
    assert_equal(line(server, "good")["state"], "open")
    assert_equal(line(server)["state"], "set aside")
    assert_in(os.path.basename(lost), line(server)["why"])
    assert_equal(len(parts_of(server)), 7)
    assert_equal(server.gearctl("table", "rm", "t").returncode, harness.OK)
    assert_equal([one for one in harness.segments_of(name) if ".part." in one], [])


harness.main(globals())
