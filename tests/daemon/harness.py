"""What the tests of geard and gearctl share: a private place, processes in it, waiting for a state. Standard library only.

A file *.test.py defines functions and ends with harness.main(globals()); ctest names one of them as the argument.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
BUILD = os.environ.get("GEAR_BUILD_DIR", "build/release")
SOURCE = os.environ.get("GEAR_SOURCE_DIR", ".")
GEARD = os.path.join(BUILD, "geard")
GEARCTL = os.path.join(BUILD, "gearctl")
WAIT_S = 20

OK, FAILURE, USAGE, ALREADY_RUNNING, NO_SERVER = 0, 1, 2, 3, 3


class Skip(Exception):
    pass


def main(names):
    name = sys.argv[1]
    test = names[name]
    try:
        with Place() as place:
            test(place)
    except Skip as reason:
        print("skipped:", reason)
        sys.exit(SKIPPED)


def until(what, condition):
    """Waits, bounded, until condition() is true; returns what it returned."""
    end = time.monotonic() + WAIT_S
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"waited {WAIT_S} s in vain until {what}"
        time.sleep(0.01)


def clean_environment(extra=None):
    """No endpoint, runtime directory or service manager of whoever runs the tests."""
    gone = {"GEAR_ENDPOINT", "XDG_RUNTIME_DIR", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
            "JOURNAL_STREAM"}
    environment = {key: value for key, value in os.environ.items() if key not in gone}
    environment.update(extra or {})
    return environment


def read_file(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Place:
    """A directory of this test's own; what was started in it is ended, and it is removed. Nothing may be left in /dev/shm."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="gear-daemon-")
        self.geards = []
        self.instances = set()

    def __enter__(self):
        return self

    def __exit__(self, kind, *exception):
        for geard in self.geards:
            geard.end()
        shutil.rmtree(self.path, ignore_errors=True)
        left = [name for instance in self.instances for name in segments_of(instance)]
        for name in left:
            os.unlink(os.path.join("/dev/shm", name))
        assert kind is not None or not left, f"left in /dev/shm: {left}"

    def file(self, name, text=None):
        path = os.path.join(self.path, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    def start(self, *arguments, socket=None, environment=None, **popen):
        """Starts geard on a socket of this place and does not wait for anything."""
        geard = Geard(self, arguments, socket or self.file("run/geard.sock"), environment, popen)
        self.geards.append(geard)
        return geard

    def serve(self, *arguments, **options):
        """Starts geard and waits until it serves."""
        return self.start(*arguments, **options).wait_until_serving()


class Geard:
    def __init__(self, place, arguments, socket, environment, popen):
        self.place = place
        self.socket = socket
        self.endpoint = "unix:" + socket
        self.log_path = place.file(f"geard.{len(place.geards)}.log", "")
        chosen = ["--socket", socket] if "--no-socket" not in arguments else []
        given = [argument for argument in arguments if argument != "--no-socket"]
        with open(self.log_path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([GEARD, *chosen, *given], stdout=log, stderr=log,
                                            env=clean_environment(environment), **popen)

    def log(self):
        return read_file(self.log_path)

    def wait_until_serving(self):
        def serving():
            assert self.process.poll() is None, f"geard ended: {self.log()}"
            return "serving unix:" in self.log()
        until("geard serves", serving)
        for path in self.open_segments():
            self.place.instances.add(os.path.basename(path).split(".")[2])
        return self

    def wait(self):
        """The exit status, once it ends by itself."""
        return self.process.wait(timeout=WAIT_S)

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.wait()

    def end(self):
        if self.process.poll() is None:
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def gearctl(self, *arguments, **options):
        return gearctl("--endpoint", self.endpoint, *arguments, **options)

    def json(self, *arguments):
        return gearctl_json("--endpoint", self.endpoint, *arguments)

    def open_segments(self):
        """Paths in /dev/shm that this geard has open now, without asking it."""
        folder = f"/proc/{self.process.pid}/fd"
        paths = set()
        for number in os.listdir(folder):
            try:
                paths.add(os.readlink(os.path.join(folder, number)))
            except FileNotFoundError:
                pass  # closed meanwhile
        return [path for path in paths if path.startswith("/dev/shm/")]

    def segments(self):
        """Names in /dev/shm that belong to this geard."""
        instance = self.json("status")["server"]["instance_id"]
        return segments_of(instance)


def segments_of(instance):
    return [name for name in os.listdir("/dev/shm") if instance in name]


def run(*command, environment=None, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S,
                          env=clean_environment(environment), check=False, **options)


def geard(*arguments, **options):
    return run(GEARD, *arguments, **options)


def gearctl(*arguments, **options):
    return run(GEARCTL, *arguments, **options)


def gearctl_json(*arguments):
    answer = gearctl("--json", *arguments)
    assert answer.returncode == OK, answer.stderr
    return json.loads(answer.stdout)


def assert_in(wanted, text):
    assert wanted in text, f"{wanted!r} is not in {text!r}"


def assert_equal(ours, wanted):
    assert ours == wanted, f"{ours!r}, wanted {wanted!r}"


def assert_match(pattern, text):
    found = re.search(pattern, text, re.MULTILINE)
    assert found, f"{pattern!r} is not in {text!r}"
    return found


def assert_fails(answer, status, *words):
    """Exit status, and every word on standard error."""
    assert answer.returncode == status, (answer.returncode, answer.stdout, answer.stderr)
    for word in words:
        assert_in(word, answer.stderr)
    return answer
