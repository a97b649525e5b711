#!/usr/bin/env python3
"""geard is killed, at any moment, and started again: it adopts what the dead one left."""
# ctest: Restart.KeepsTablesCountersAndHandles -- tables
# ctest: Restart.TakesARunningWritersStepsOnce -- writer
# ctest: Restart.AdmitsWhatWasInTheRingBeforeItServes -- ring
# ctest: Restart.KeepsThePartsOfWriters -- parts
# ctest: Restart.GivesBackWhatAWriterHeldThatDiedMeanwhile -- dead_writer
# ctest: Restart.KeepsWhatALivingWriterHoldsUntilItDies -- stopped_writer
# ctest: Restart.HoldsTheBlocksOfAWriterWhoseChannelIsLost -- lost_channel
# ctest: Restart.LetsADirectSamplerGoOnWithoutAServer -- direct_sampler
# ctest: Restart.KeepsTheLeasesOfAGroupsConsumer -- consumer
# ctest: Restart.TellsWritersAndDirectSamplersOfATableThatWentWithTheServer -- memfd_table
# ctest: Restart.RefusesWhatAnotherBuildLeftAndLeavesIt -- another_build
# ctest: Restart.DiscardsEverythingWhenFresh -- fresh
# ctest: Restart.RemovesWhatIsHalfMade -- half_made
# ctest: Restart.AdoptsNothingOfAServerThatWasEnding -- ending
# ctest: Restart.AdoptsAgainAndAgain -- again_and_again
# ctest: Restart.GcListsAndRemovesOrphansOnly -- gc
# ctest: Restart.OfAMillionItemsIsTimed -- million

import ctypes
import os
import re
import signal
import struct
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import libgear  # noqa: E402
from harness import assert_equal, assert_fails, assert_in, geard, gearctl, until  # noqa: E402
from remains import (SHM, create, handle, instance_of, kill, line, parts_of, patch, segment,  # noqa: E402
                     stats)


class WriterProcess:
    """A process of its own that appends `steps` steps, flushes, and then waits."""

    BODY = """
import sys
sys.path.insert(0, {folder!r})
import libgear
peer = libgear.Peer({endpoint!r}, "t")
writer = peer.writer()
for i in range({steps}):
    assert peer.append(writer, i, 10) == 0
assert peer.flush(writer, 10) == 0
print("ready", flush=True)
sys.stdin.read()
"""

    def __init__(self, server, steps):
        libgear.skip_unless_loadable()  # its own would end without a word
        folder = os.path.dirname(os.path.abspath(__file__))
        body = self.BODY.format(folder=folder, endpoint=server.endpoint, steps=steps)
        self.process = subprocess.Popen([sys.executable, "-c", body], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert_equal(self.process.stdout.readline(), "ready\n")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.kill()

    def kill(self):
        self.process.kill()
        self.process.wait()


def tables(place):
    first = create(place.serve())
    with libgear.Peer(first.endpoint, "t") as peer:
        writer = peer.writer()
        for i in range(50):
            assert_equal(peer.append(writer, i, 10), 0)
        assert_equal(peer.flush(writer, 10), 0)
    until("the lane is closed", lambda: line(first)["lanes_open"] == 0)
    before, held, name = stats(first), handle(first), instance_of(first)
    kill(first)
    assert harness.segments_of(name)
    second = place.serve(socket=first.socket)
    assert_equal(stats(second), before)
    assert_equal(before["items"], 50)
    assert_equal(handle(second), held)
    assert_equal(instance_of(second), name)
    with libgear.Peer("handle:" + held, "t"):
        pass
    assert_equal(gearctl("-e", "handle:" + held, "table", "describe", "t").returncode, harness.OK)
    # Ids go on: a new table is not taken for the old one.
    create(second, "u")
    ids = [second.json("table", "describe", name)["table_id"] for name in "tu"]
    assert ids[0] < ids[1], ids
    assert_equal(second.stop(), harness.OK)
    assert_equal(harness.segments_of(name), [])


def writer(place):
    server = create(place.serve())
    peer = libgear.Peer(server.endpoint, "t")
    one = peer.writer()
    steps = 0
    for _ in range(3):
        for _ in range(100):
            assert_equal(peer.append(one, steps, 10), 0)
            steps += 1
        kill(server)
        server = place.serve(socket=server.socket)
        for _ in range(10):
            assert_equal(peer.append(one, steps, 10), 0)
            steps += 1
        assert_equal(peer.flush(one, 10), 0)
        assert_equal(stats(server)["steps"], steps)
        assert_equal(stats(server)["items"], steps)
    peer.call("gear_close", peer.client)
    until("the lane is closed", lambda: line(server)["lanes_open"] == 0)
    assert_equal(stats(server)["blocks_free"] > 0, True)


def ring(place):
    server = create(place.serve())
    peer = libgear.Peer(server.endpoint, "t")
    one = peer.writer()
    assert_equal(peer.append(one, 0, 10), 0)
    assert_equal(peer.flush(one, 10), 0)
    kill(server)
    for i in range(20):
        assert_equal(peer.append(one, i, 10), 0)
    # The first that is answered is answered after what the ring held.
    server = place.serve(socket=server.socket)
    assert_equal(stats(server)["steps"], 21)
    peer.call("gear_close", peer.client)


# Ten steps, of which the items need three blocks; the writer is granted more ahead.
BLOCKS_OF_FOUR = ["--block-steps", "4"]


def parts(place):
    server = create(place.serve(), "t", "--payload-isolation", "per_writer", "--writers-max", "3", "--block-steps", "64")
    memory = server.json("table", "describe", "t")["data_bytes"]

    def used():
        return sum(os.stat(path).st_blocks * 512 for path in parts_of(server))

    assert_equal((len(parts_of(server)), used()), (3, memory))
    peers = [libgear.Peer(server.endpoint, "t") for _ in range(3)]
    writers = [peer.writer() for peer in peers]
    steps = 0
    for round_ in range(4):
        # One after the other fills the table: memory goes to its part.
        peer, one = peers[round_ % 3], writers[round_ % 3]
        for _ in range(3000):
            assert_equal(peer.append(one, steps, 10), 0)
            steps += 1
        # A writer can put something behind the end of its part.
        os.truncate(parts_of(server)[round_ % 3], os.stat(parts_of(server)[0]).st_size + 1)
        kill(server)
        server = place.serve(socket=server.socket)
        for peer, one in zip(peers, writers):
            assert_equal(peer.append(one, steps, 10), 0)
            steps += 1
        for peer, one in zip(peers, writers):
            assert_equal(peer.flush(one, 10), 0)
        assert_equal((stats(server)["steps"], stats(server)["items"]), (steps, 1000))
        assert_equal(used(), memory)
        assert_equal(server.gearctl("fsck", "--online", "t").returncode, harness.OK)
    # A closed writer's part goes to the next.
    peers[0].call("gear_close", peers[0].client)
    with libgear.Peer(server.endpoint, "t") as peer:
        one = peer.writer()
        assert_equal(peer.append(one, steps, 10), 0)
        assert_equal(peer.flush(one, 10), 0)
    # And a dead one's, also when it died while no server ran.
    until("the part is free", lambda: line(server)["lanes_open"] == 2)
    with WriterProcess(server, 10) as child:
        kill(server)
        child.kill()
        server = place.serve(socket=server.socket)
    with libgear.Peer(server.endpoint, "t") as peer:
        assert_equal(peer.flush(peer.writer(), 10), 0)
    for peer in peers[1:]:
        peer.call("gear_close", peer.client)
    until("the lanes are closed", lambda: line(server)["lanes_open"] == 0)
    name = instance_of(server)
    assert_equal(server.stop(), harness.OK)
    assert_equal(harness.segments_of(name), [])


def dead_writer(place):
    server = create(place.serve(), "t", *BLOCKS_OF_FOUR)
    free = stats(server)["blocks_free"]
    with WriterProcess(server, 10) as child:
        assert stats(server)["blocks_free"] < free - 3
        kill(server)
        child.kill()
        server = place.serve(socket=server.socket)
        until("the dead writer's lane is closed", lambda: line(server)["lanes_open"] == 0)
    assert_equal(stats(server)["items"], 10)
    assert_equal(stats(server)["blocks_free"], free - 3)
    assert_in("ended while no server ran", server.log())


def stopped_writer(place):
    server = create(place.serve(), "t", *BLOCKS_OF_FOUR)
    free = stats(server)["blocks_free"]
    with WriterProcess(server, 10) as child:
        child.process.send_signal(signal.SIGSTOP)
        before = stats(server)
        kill(server)
        server = place.serve(socket=server.socket)
        assert_equal(stats(server), before)
        assert_equal(before["lanes_open"], 1)
        child.kill()
        until("the dead writer's lane is closed", lambda: line(server)["lanes_open"] == 0)
    assert before["blocks_free"] < free - 3
    assert_equal(stats(server)["blocks_free"], free - 3)


def lost_channel(place):
    server = create(place.serve(), "t", *BLOCKS_OF_FOUR)
    with WriterProcess(server, 10) as child:
        before, name = stats(server), instance_of(server)
        kill(server)
        os.unlink(segment(name, "channel"))
        server = place.serve(socket=server.socket)
        assert_in("is lost", server.log())
        assert_equal(stats(server)["blocks_free"], before["blocks_free"])
        assert_equal(line(server)["lanes_open"], 1)
        child.kill()
        until("the dead writer's lane is closed", lambda: line(server)["lanes_open"] == 0)
    assert stats(server)["blocks_free"] > before["blocks_free"]


def filled(place, steps, *options):
    server = create(place.serve(), "t", *options)
    peer = libgear.Peer(server.endpoint, "t")
    one = peer.writer()
    for i in range(steps):
        assert_equal(peer.append(one, i, 10), 0)
    assert_equal(peer.flush(one, 10), 0)
    return server, peer


def direct_sampler(place):
    server, peer = filled(place, 50)
    sampler = peer.sampler(libgear.DIRECT)
    peer.release(peer.sample(sampler, 8))
    kill(server)
    for _ in range(100):
        peer.release(peer.sample(sampler, 8))
    server = place.serve(socket=server.socket)
    for _ in range(100):
        peer.release(peer.sample(sampler, 8))
    assert_equal(stats(server)["items"], 50)
    peer.call("gear_close", peer.client)


def consumer(place):
    server, peer = filled(place, 20)
    sampler = peer.consumer("g")
    batch = peer.sample(sampler, 5)
    kill(server)
    server = place.serve(socket=server.socket)
    peer.release(batch)
    for _ in range(3):
        peer.release(peer.sample(sampler, 5))

    def group():
        return server.json("table", "groups", "t")["groups"][0]
    until("all is acknowledged", lambda: group()["acknowledged"] == 20)
    assert_equal(group()["delivered"], 20)
    assert_equal(group()["redelivered"], 0)
    assert_equal(group()["lag"], 0)
    peer.call("gear_close", peer.client)


def memfd_table(place):
    server = create(place.serve(), "t", "--memory", "memfd")
    peer = libgear.Peer(server.endpoint, "t")
    one = peer.writer()
    assert_equal(peer.append(one, 0, 10), 0)
    sampler = peer.sampler(libgear.DIRECT)
    peer.release(peer.sample(sampler, 8))
    kill(server)
    peer.release(peer.sample(sampler, 8))
    # The first may have been admitted before; this one never is.
    assert_equal(peer.append(one, 1, 10), 0)
    server = place.serve(socket=server.socket)
    assert_equal(server.json("table", "ls"), {"tables": []})
    assert_equal(peer.flush(one, 10), libgear.EDROPPED)
    assert_equal(peer.sample_status(sampler, 8, 10), libgear.EDROPPED)
    peer.call("gear_close", peer.client)


def another_build(place):
    server = create(place.serve())
    name = instance_of(server)
    kill(server)
    names = sorted(harness.segments_of(name))
    path = segment(name, "directory")
    before = patch(path, 16, b"\x11" * 8)
    assert_fails(geard("--socket", server.socket), harness.FAILURE, "1111111111111111",
                 f"{struct.unpack('<Q', before)[0]:016x}", "--fresh")
    assert_equal(sorted(harness.segments_of(name)), names)
    patch(path, 16, before)
    before = patch(path, 8, struct.pack("<I", 77))
    assert_fails(geard("--socket", server.socket), harness.FAILURE, "version is 77", "--fresh")
    assert_equal(sorted(harness.segments_of(name)), names)
    patch(path, 8, before)
    assert line(place.serve(socket=server.socket))


def fresh(place):
    server = create(place.serve())
    name = instance_of(server)
    kill(server)
    patch(segment(name, "directory"), 16, b"\x11" * 8)
    server = place.serve("--fresh", socket=server.socket)
    assert_equal(server.json("table", "ls"), {"tables": []})
    assert_in("removed", server.log())
    kinds = sorted(one.split(".")[3] for one in harness.segments_of(name))
    assert_equal(kinds, ["instance", "ledger"])


def half_made(place):
    server = create(create(create(place.serve(), "a"), "b"), "c")
    ids = {one: f'{server.json("table", "describe", one)["table_id"]:x}' for one in "abc"}
    name = instance_of(server)
    kill(server)

    def path(kind, table):
        return SHM + [one for one in harness.segments_of(name)
                      if one.endswith(f".{kind}.{ids[table]}")][0]
    os.unlink(path("data", "a"))
    patch(path("directory", "b"), 0, b"\0" * 8)
    server = place.serve(socket=server.socket)
    # Whose directory is whole is set aside, never removed.
    assert_equal(sorted(one["name"] for one in server.json("table", "ls")["tables"]), ["a", "c"])
    assert_equal(len(harness.segments_of(name)), 5)
    assert_in("half made", server.log())
    assert_in("set aside", server.log())
    assert_equal(server.gearctl("table", "rm", "a").returncode, harness.OK)


def ending(place):
    server = create(place.serve())
    name = instance_of(server)
    kill(server)
    path = segment(name, "instance")
    # InstanceSegment::pid: behind conductor_state, in the second pair of lines.
    patch(path, 128 + 4, struct.pack("<I", 0))
    server = place.serve(socket=server.socket)
    assert_equal(server.json("table", "ls"), {"tables": []})


def again_and_again(place):
    server = create(place.serve())
    peer = libgear.Peer(server.endpoint, "t")
    one = peer.writer()
    for i in range(8):
        for _ in range(5):
            assert_equal(peer.append(one, i, 10), 0)
        kill(server)
        server = place.serve(socket=server.socket)
    assert_equal(peer.flush(one, 10), 0)
    assert_equal(stats(server)["items"], 40)
    peer.call("gear_close", peer.client)


def orphan_of(instance, *options):
    answer = harness.gearctl_json("gc", *options)
    found = [one for one in answer["orphans"] if one["instance_id"] == instance]
    return found[0] if found else None


def gc(place):
    dead = create(place.serve(socket=place.file("run/dead.sock")))
    alive = create(place.serve(socket=place.file("run/alive.sock")))
    names = {server: instance_of(server) for server in (dead, alive)}
    assert_equal(orphan_of(names[dead]), None)
    kill(dead)
    before = sorted(harness.segments_of(names[dead]))
    # Only a list; geard adopts it still.
    found = orphan_of(names[dead])
    assert_equal(found["socket"], dead.socket)
    assert_equal(found["tables"], 1)
    assert_equal(sorted(found["names"]), before)
    assert found["bytes"] > 0
    assert_in("gearctl gc --force", gearctl("gc").stdout)
    assert_equal(sorted(harness.segments_of(names[dead])), before)
    again = place.serve(socket=dead.socket)
    assert_equal(line(again)["state"], "open")
    assert_equal(orphan_of(names[dead]), None)
    kill(again)
    assert_equal(orphan_of(names[dead], names[alive]), None)
    # By name: what other tests' dead servers left is theirs.
    assert_equal(harness.gearctl_json("gc", "--force", names[alive])["orphans"], [])
    assert_equal(orphan_of(names[dead], "--force", names[dead])["removed"], len(before))
    assert_equal(harness.segments_of(names[dead]), [])
    assert_fails(gearctl("gc", "--force", "xyz"), harness.USAGE, "xyz")
    assert_equal(line(alive)["state"], "open")
    assert harness.segments_of(names[alive])


def million(place):
    server = place.serve()
    items = 1_000_000
    answer = server.gearctl("table", "create", "t", "--column", "x:f32", "--capacity", str(items),
                            "--sampler", "prioritized")
    assert_equal(answer.returncode, harness.OK)
    peer = libgear.Peer(server.endpoint, "t")
    one = peer.writer()
    chunk = 10_000
    values = (ctypes.c_float * chunk)(*range(chunk))
    cell = libgear.Cell(column=0, dtype=libgear.F32, data=ctypes.cast(values, ctypes.c_void_p),
                        step_stride=0)
    accepted = ctypes.c_size_t()
    for _ in range(items // chunk):
        peer.call("gear_writer_append_many", one, ctypes.c_uint32(0), ctypes.byref(cell),
                  ctypes.c_size_t(1), ctypes.c_size_t(chunk), ctypes.c_int64(10**10),
                  ctypes.byref(accepted))
    assert_equal(peer.flush(one, 30), 0)
    assert_equal(stats(server)["items"], items)
    kill(server)
    server = place.serve(socket=server.socket)
    assert_equal(stats(server)["items"], items)
    print(re.search(r"adopted from a dead server in .*", server.log()).group(0))
    peer.call("gear_close", peer.client)


harness.main(globals())
