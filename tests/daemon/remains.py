"""Tables of a geard that is killed, and what is left of it in /dev/shm. Standard library only."""

import signal

import harness
from harness import assert_equal

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


def parts_of(server):
    return [SHM + one for one in harness.segments_of(instance_of(server)) if ".part." in one]
