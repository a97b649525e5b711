#!/usr/bin/env python3
"""What geard tells a service manager, heard on a socket that stands in for systemd's."""
# ctest: Notify.ReadyComesOnceTheTablesExist -- ready
# ctest: Notify.WatchdogIsFedAtLeastTwiceAPeriod -- watchdog
# ctest: Notify.WatchdogOfAnotherProcessIsNotFed -- foreign_watchdog
# ctest: Notify.StoppingIsSaidOnSigterm -- stopping
# ctest: Notify.AbstractSocketIsUnderstood -- abstract
# ctest: Notify.FailedStartIsNeverReady -- failed_start
# ctest: Notify.SigtermWhileTablesAreMadeEndsCleanAndNeverReady -- stop_during_start
# ctest: Notify.JournalGetsLevelPrefixes -- journal

import os
import socket
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from harness import assert_equal, assert_in  # noqa: E402

CONFIG = """
[[table]]
name = "declared"
capacity_items = 10
columns = ["x:f32"]
"""


class Manager:
    """Receives datagrams; `address` is what NOTIFY_SOCKET says, with @ for an abstract name."""

    def __init__(self, address):
        self.environment = {"NOTIFY_SOCKET": address}
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address[0] == "@" else address)
        self.socket.settimeout(harness.WAIT_S)
        self.heard = []

    def hear(self, word):
        """Receives up to a datagram with the line `word`; returns its lines."""
        while True:
            lines = self.socket.recv(4096).decode().split("\n")
            self.heard.append(lines)
            if word in lines:
                return lines

    def hear_rest(self):
        self.socket.settimeout(0)
        try:
            while True:
                self.heard.append(self.socket.recv(4096).decode().split("\n"))
        except BlockingIOError:
            return [line for lines in self.heard for line in lines]


def ready(place):
    manager = Manager(place.file("notify"))
    server = place.start("--config", place.file("geard.toml", CONFIG),
                         environment=manager.environment)
    lines = manager.hear("READY=1")
    names = [table["name"] for table in server.json("table", "ls")["tables"]]
    assert_equal(names, ["declared"])
    assert_in("STATUS=serving unix:" + server.socket, lines)


def watchdog(place):
    manager = Manager(place.file("notify"))
    period_s = 0.4
    environment = {**manager.environment, "WATCHDOG_USEC": str(int(period_s * 1e6))}
    server = place.start(environment=environment)
    manager.hear("WATCHDOG=1")
    begin = time.monotonic()
    for _ in range(8):
        manager.hear("WATCHDOG=1")
    # Eight halves of a period; the machine may be slow, the daemon may not be late by as much again.
    assert time.monotonic() - begin < 8 * period_s, time.monotonic() - begin
    assert_equal(server.process.poll(), None)


def foreign_watchdog(place):
    manager = Manager(place.file("notify"))
    environment = {**manager.environment, "WATCHDOG_USEC": "20000", "WATCHDOG_PID": "1"}
    server = place.start(environment=environment)
    manager.hear("READY=1")
    # By the time that 50 requests are answered, 20 ms have passed many times.
    for _ in range(50):
        server.gearctl("status")
    server.stop()
    assert "WATCHDOG=1" not in manager.hear_rest()


def stopping(place):
    manager = Manager(place.file("notify"))
    server = place.start(environment=manager.environment)
    manager.hear("READY=1")
    assert_equal(server.stop(), harness.OK)
    manager.hear("STOPPING=1")


def abstract(place):
    manager = Manager("@gear-test-" + os.path.basename(place.path))
    place.start(environment=manager.environment)
    manager.hear("READY=1")


def failed_start(place):
    manager = Manager(place.file("notify"))
    config = CONFIG.replace("capacity_items = 10", 'capacity_items = "1G"\ncapacity_steps = "1000G"')
    server = place.start("--config", place.file("geard.toml", config),
                         environment=manager.environment)
    assert_equal(server.wait(), harness.FAILURE)
    assert_in("declared", server.log())
    assert "READY=1" not in manager.hear_rest()


def stop_during_start(place):
    manager = Manager(place.file("notify"))
    config = CONFIG.replace("capacity_items = 10", 'capacity_items = "16Mi"')
    server = place.start("--config", place.file("geard.toml", config), "--memory", "posix",
                         environment=manager.environment)
    manager.hear("EXTEND_TIMEOUT_USEC=1800000000")
    segments = server.open_segments()
    assert segments
    assert_equal(server.stop(), harness.OK)
    assert_equal([path for path in segments if os.path.exists(path)], [])
    heard = manager.hear_rest()
    assert "READY=1" not in heard, heard
    assert_in("STOPPING=1", heard)
    assert_equal(os.listdir(os.path.dirname(server.socket)), [])


def journal(place):
    # The file that is standard error stands in for the journal's stream.
    path = place.file("geard.0.log", "")
    status = os.stat(path)
    server = place.serve(environment={"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"})
    assert_in(f"<6>serving unix:{server.socket}\n", server.log())


harness.main(globals())
