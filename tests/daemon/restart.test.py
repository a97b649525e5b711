#!/usr/bin/env python3
"""geard is killed, at any moment, and started again: it adopts what the dead one left."""
# ctest: Restart.KeepsTablesCountersAndHandles -- tables
# ctest: Restart.TakesARunningWritersStepsOnce -- writer
# ctest: Restart.AdmitsWhatWasInTheRingBeforeItServes -- ring
# ctest: Restart.KeepsThePartsOfWriters -- parts
# ctest: Restart.SetsATableAsideThatLacksAPart -- lost_part
# ctest: Restart.GivesBackWhatAWriterHeldThatDiedMeanwhile -- dead_writer
# ctest: Restart.KeepsWhatALivingWriterHoldsUntilItDies -- stopped_writer
# ctest: Restart.HoldsTheBlocksOfAWriterWhoseChannelIsLost -- lost_channel
# ctest: Restart.LetsADirectSamplerGoOnWithoutAServer -- direct_sampler
# ctest: Restart.KeepsTheLeasesOfAGroupsConsumer -- consumer
# ctest: Restart.TellsTheWriterOfATableThatWentWithTheServer -- memfd_table
# ctest: Restart.RefusesWhatAnotherBuildLeftAndLeavesIt -- another_build
# ctest: Restart.DiscardsEverythingWhenFresh -- fresh
# ctest: Restart.RemovesWhatIsHalfMade -- half_made
# ctest: Restart.SetsATableAsideThatContradictsItself -- set_aside
# ctest: Restart.KeepsATableThatWasSetAsideThroughACleanEnd -- set_aside_stays
# ctest: Restart.TellsOthersOfNoTableThatIsSetAside -- set_aside_others
# ctest: Restart.LetsClientsBackWhenTheyAreAllThatMayBeThere -- full
# ctest: Restart.KeepsItsOwnPlaceWhereItMayHaveMoreClientsThanTheServerBefore -- own_place
# ctest: Restart.AdoptsNothingOfAServerThatWasEnding -- ending
# ctest: Restart.AdoptsAgainAndAgain -- again_and_again
# ctest: Restart.LetsAClientBackToItsSessionByItsToken -- session
# ctest: Restart.ClosesChannelsThatAReturningClientDoesNotName -- unnamed_channels
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
from raw_client import ECORRUPT, ENOTFOUND, EPERM, RawClient  # noqa: E402
from harness import assert_equal, assert_fails, assert_in, geard, gearctl, until  # noqa: E402

TABLE = ["--column", "x:f32", "--capacity", "1000"]
SHM = "/dev/shm/"


def create(server, name="t", *options):
    answer = server.gearctl("table", "create", name, *TABLE, *options)
    assert_equal(answer.returncode, harness.OK)
    return server


def kill(server):
    server.stop(signal.SIGKILL)
    return server


def line(server, name="t"):
    found = [one for one in server.json("table", "ls")["tables"] if one["name"] == name]
    return found[0] if found else None


def stats(server, name="t"):
    return server.json("table", "describe", name)["stats"]


def handle(server, name="t"):
    return server.gearctl("table", "handle", name).stdout.strip()


def instance_of(server):
    return server.json("status")["server"]["instance_id"]


def segment(instance, kind):
    names = [name for name in harness.segments_of(instance) if f".{kind}." in name]
    assert_equal(len(names), 1)
    return SHM + names[0]


def patch(path, offset, data):
    with open(path, "r+b") as file:
        file.seek(offset)
        before = file.read(len(data))
        file.seek(offset)
        file.write(data)
    return before


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


def parts_of(server):
    return [SHM + one for one in harness.segments_of(instance_of(server)) if ".part." in one]


def parts(place):
    server = create(place.serve(), "t", "--payload-isolation", "per_writer", "--writers-max", "3", "--block-steps", "64")
    memory = server.json("table", "describe", "t")["data_bytes"]
    used = lambda: sum(os.stat(path).st_blocks * 512 for path in parts_of(server))  # noqa: E731
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
    # A dead writer's part is free after the restart that follows.
    peers[0].call("gear_close", peers[0].client)
    with libgear.Peer(server.endpoint, "t") as peer:
        one = peer.writer()
        assert_equal(peer.append(one, steps, 10), 0)
        assert_equal(peer.flush(one, 10), 0)
    for peer in peers[1:]:
        peer.call("gear_close", peer.client)
    until("the lanes are closed", lambda: line(server)["lanes_open"] == 0)
    name = instance_of(server)
    assert_equal(server.stop(), harness.OK)
    assert_equal(harness.segments_of(name), [])


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
    assert_in("died while no server ran", server.log())


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
    kill(server)
    # The first may have been admitted before; this one never is.
    assert_equal(peer.append(one, 1, 10), 0)
    server = place.serve(socket=server.socket)
    assert_equal(server.json("table", "ls"), {"tables": []})
    assert_equal(peer.flush(one, 10), libgear.EDROPPED)
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
        os.setgroups([])
        os.setresgid(61001, 61001, 61001)
        os.setresuid(61001, 61001, 61001)
        raw.session = 0
        os._exit(0 if names_and_attach() == ((0, b""), ENOTFOUND) else 1)
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
        os._exit(0 if raw.hello([second]) == EPERM else 1)
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
