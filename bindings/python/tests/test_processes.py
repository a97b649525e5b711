"""Other processes, threads, signals, and the end of things."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import gear
import numpy as np
import pytest
from steps import filled, wait_until, x_of

ACTOR = """
import sys, gear, numpy as np
handle = sys.argv[1]
with gear.connect("handle:" + handle) as client:
    writer = client.attach(handle).writer()
    for n in range(100, 200):
        writer.append(0, x=np.array([n, -n, 0.5 * n], np.float32), n=n)
    writer.end_episode(0, gear.TERMINATED)
    writer.flush()
"""

LEARNER = """
import sys, gear
handle = sys.argv[1]
with gear.connect("handle:" + handle) as client:
    with client.attach(handle).sampler(batch=256).sample(timeout=10.0) as batch:
        assert (batch["x"][:, 0] == batch["n"]).all()
        print(sorted(set(batch["n"].tolist()))[0])
"""


def run_python(code: str, *arguments: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=50
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_another_process_appends_by_handle(table):
    run_python(ACTOR, table.handle)
    assert table.stats().steps == 100
    with table.sampler(batch=64).sample() as batch:
        assert (batch["x"][:, 0] == batch["n"]).all()
        assert batch["n"].min() >= 100


def test_another_process_draws_by_handle(table):
    filled(table, 50)
    assert int(run_python(LEARNER, table.handle)) < 50


def test_killed_writer_leaves_its_flushed_steps(table):
    code = ACTOR.replace("writer.end_episode(0, gear.TERMINATED)\n", "") + (
        "    import os, signal\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    process = subprocess.run([sys.executable, "-c", code, table.handle], timeout=50)
    assert process.returncode == -signal.SIGKILL
    assert table.stats().steps == 100
    wait_until(lambda: table.stats().lanes_open == 0)
    assert table.stats().episodes == 1


def test_blocked_draw_lets_other_threads_run(table):
    drawn = []

    def draw():
        with table.sampler(batch=1).sample(timeout=20.0) as batch:
            drawn.append(int(batch["n"][0]))

    thread = threading.Thread(target=draw)
    thread.start()
    writer = filled(table, 1)
    thread.join(timeout=20)
    assert drawn == [0]
    writer.close()


def test_writer_in_use_by_another_thread_is_refused(client):
    queue = client.create_queue("q", {"n": "int64"}, capacity=1)
    writer = queue.writer()
    writer.append(0, n=0)
    writer.append(0, n=1)  # the queue is full: not admitted
    began = threading.Event()
    outcomes = []

    def block():
        began.set()
        try:
            writer.flush(timeout=1.0)
        except gear.TimedOut:
            outcomes.append("timed out")

    thread = threading.Thread(target=block)
    thread.start()
    began.wait()
    give_up = time.monotonic() + 0.9
    refused = False
    while not refused and time.monotonic() < give_up:
        try:
            writer.flush(timeout=0.0)
        except gear.StateError:
            refused = True
            with pytest.raises(gear.StateError, match="other threads"):
                client.close()
        except gear.TimedOut:
            time.sleep(0.001)
    thread.join()
    assert refused and outcomes == ["timed out"]


def test_signal_handler_interrupts_a_wait(table):
    class Alarm(Exception):
        pass

    def ring(_number, _frame):
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        begin = time.monotonic()
        with pytest.raises(Alarm):
            table.sampler().sample(1, timeout=20.0)
        assert time.monotonic() - begin < 5
    finally:
        signal.signal(signal.SIGALRM, before)


def test_closed_client_refuses_all_its_handles(client, table):
    writer, sampler = table.writer(), table.sampler()
    client.close()
    client.close()
    for call in (client.tables, table.stats, lambda: writer.append(0, x=x_of(0), n=0),
                 lambda: sampler.sample(1), sampler.stats):  # fmt: skip
        with pytest.raises(gear.StateError, match="closed"):
            call()
    writer.close()
    sampler.close()
    assert writer.closed and sampler.closed


def test_leaving_a_writers_with_block_ends_its_episodes(table):
    with table.writer() as writer:
        writer.append(0, x=x_of(0), n=0)
    wait_until(lambda: table.stats().lanes_open == 0)
    assert table.stats().episodes == 1
    with pytest.raises(gear.StateError, match="closed"):
        writer.append(0, x=x_of(0), n=0)


def test_forked_child_cannot_disturb_its_parent(table):
    writer = filled(table, 5)
    sampler = table.sampler(batch=4)
    batch = sampler.sample()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            writer.append(0, x=x_of(5), n=5)
        except gear.Error:
            status = 0
        del batch, sampler, writer
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    writer.append(0, x=x_of(5), n=5)
    writer.flush()
    assert table.stats().steps == 6
    assert (batch["x"][:, 0] == batch["n"]).all()


def test_interpreter_ends_cleanly_with_handles_alive():
    output = run_python(
        "import gear, numpy as np\n"
        "client = gear.connect('embedded:')\n"
        "table = client.create_table('t', {'n': 'int64'}, 10)\n"
        "writer = table.writer()\n"
        "writer.append(0, n=1)\n"
        "place = writer.reserve(0)\n"
        "batch = table.sampler(batch=1).sample()\n"
        "array = batch['n']\n"
        "print('end')"
    )
    assert output == "end"


def test_embedded_server_is_shared_by_name():
    with gear.connect("embedded:shared") as first, gear.connect("embedded:shared") as second:
        first.create_table("t", {"n": "int64"}, 10).writer().append(0, n=np.int64(1))
        assert second.tables() == ["t"]
    with gear.connect("embedded:shared") as third:
        assert third.tables() == []


def test_killed_daemon_that_is_started_again_goes_on_where_it_was(tmp_path):
    """Table, writer, sampler and handle stay; steps that were flushed are there."""
    program = os.path.join(os.environ.get("GEAR_BUILD_DIR", "build/release"), "geard")
    if not os.access(program, os.X_OK):
        pytest.skip("geard is not built")
    path = str(tmp_path / "geard.sock")

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen([program, "--socket", path, "--log-level", "error"])

    server = start()
    try:
        wait_until(lambda: os.path.exists(path))
        with gear.connect("unix:" + path, reconnect_timeout=30) as client:
            table = client.create_table("t", {"n": "int64"}, 100, mode=0o600)
            writer = table.writer()
            for n in range(10):
                writer.append(0, n=n)
            writer.flush()
            sampler = table.sampler(10, mode="direct")
            server.kill()
            server.wait()
            with sampler.sample(10) as batch:
                assert set(batch["n"].ravel()) <= set(range(10))
            writer.append(0, n=10)  # waits in the ring
            server = start()
            writer.flush()
            assert table.stats().steps == 11
            assert client.open_table("t").stats().items == 11
    finally:
        server.terminate()
        server.wait()
