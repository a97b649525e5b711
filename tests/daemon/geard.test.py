#!/usr/bin/env python3
"""geard as a process: its socket, its signals, its exit statuses."""
# ctest: Geard.SaysOneLineWhenAnotherServesItsSocket -- second_instance
# ctest: Geard.ReplacesSocketAndAdoptsTheTablesOfOneThatWasKilled -- killed_instance
# ctest: Geard.RemovesTheSegmentsOfOneThatWasKilledWithMemfd -- killed_memfd_instance
# ctest: Geard.RefusesASocketPathThatIsARegularFileAndLeavesIt -- regular_file
# ctest: Geard.RefusesASocketPathThatIsTooLong -- long_path
# ctest: Geard.RefusesASocketInADirectoryThatCannotBeMade -- missing_parent
# ctest: Geard.RefusesASocketInADirectoryOfAnotherUser -- foreign_parent
# ctest: Geard.LeavesNothingBehindOnSigterm -- end_by_sigterm
# ctest: Geard.LeavesNothingBehindOnSigint -- end_by_sigint
# ctest: Geard.LeavesNothingBehindOnHangup -- end_by_hangup
# ctest: Geard.EndsOnSigtermWhileAClientIsStopped -- stopped_client
# ctest: Geard.MakesItsDirectoryForItsUserAlone -- directory_mode
# ctest: Geard.LetsOtherUsersConnectOnlyWhenTold -- other_users
# ctest: Geard.ListensByDefaultWhereGearctlLooks -- default_socket
# ctest: Geard.SaysWhatToDoWithoutARuntimeDirectory -- no_runtime_directory
# ctest: Geard.NamesTheOptionThatWasMeant -- unknown_option
# ctest: Geard.RefusesUnknownValuesOfOptions -- unknown_value
# ctest: Geard.PrintsHelpAndVersion -- help_and_version
# ctest: Geard.UsesEpollWhenTold -- epoll
# ctest: Geard.PutsTablesWhereMemorySays -- memory
# ctest: Geard.SaysThatItsControlGroupHasNoMemoryAndGoesOn -- control_group
# ctest: Geard.WritesJsonLinesWhenTold -- json_log
# ctest: Geard.WritesNoLineBelowTheLevel -- log_level

import json
import os
import signal
import socket
import stat
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from harness import assert_equal, assert_fails, assert_in, geard, gearctl  # noqa: E402

NOBODY = 65534
TABLE = ["table", "create", "t", "--column", "x:f32", "--capacity", "100"]


def second_instance(place):
    first = place.serve()
    answer = assert_fails(geard("--socket", first.socket), harness.ALREADY_RUNNING, first.socket,
                          str(first.process.pid))
    assert_equal(answer.stderr.count("\n"), 1)
    assert_equal(answer.stdout, "")
    assert_equal(first.gearctl("status").returncode, harness.OK)


def killed_instance(place):
    first = place.serve()
    assert_equal(first.gearctl(*TABLE).returncode, harness.OK)
    instance = first.json("status")["server"]["instance_id"]
    first.stop(signal.SIGKILL)
    assert os.path.exists(first.socket)
    assert harness.segments_of(instance)
    second = place.serve(socket=first.socket)
    # A path's servers share an identity.
    assert_equal(second.json("status")["server"]["instance_id"], instance)
    assert_equal([table["name"] for table in second.json("table", "ls")["tables"]], ["t"])
    assert_equal(second.stop(), harness.OK)
    assert_equal(harness.segments_of(instance), [])


def killed_memfd_instance(place):
    first = place.serve("--memory", "memfd")
    assert_equal(first.gearctl(*TABLE, "--memory", "posix").returncode, harness.OK)
    instance = first.json("status")["server"]["instance_id"]
    first.stop(signal.SIGKILL)
    assert_equal(len(harness.segments_of(instance)), 2)
    # Its clients are not known, nor what they may be writing.
    second = place.serve("--memory", "memfd", socket=first.socket)
    assert_equal(harness.segments_of(instance), [])
    assert_equal(second.json("table", "ls"), {"tables": []})


def regular_file(place):
    path = place.file("precious", "kept")
    assert_fails(geard("--socket", path), harness.FAILURE, path)
    assert_equal(harness.read_file(path), "kept")


def long_path(place):
    assert_fails(geard("--socket", place.file("x" * 120)), harness.FAILURE, "107")


def missing_parent(place):
    assert_fails(geard("--socket", place.file("a/b/geard.sock")), harness.FAILURE, place.file("a/b"),
                 "--socket")


def foreign_parent(place):
    if os.geteuid() != 0:
        raise harness.Skip("needs root, to be kept out of its directory")
    folder = place.file("others")
    os.mkdir(folder, 0o755)
    os.chmod(os.path.dirname(folder), 0o755)
    assert_fails(geard("--socket", folder + "/geard.sock", **as_nobody()), harness.FAILURE, f"user {NOBODY}", folder, "another socket")


def end_by(place, number):
    server = place.serve("--memory", "posix")
    assert_equal(server.gearctl(*TABLE).returncode, harness.OK)
    instance = server.json("status")["server"]["instance_id"]
    assert harness.segments_of(instance)
    assert_equal(server.stop(number), harness.OK)
    assert_equal(harness.segments_of(instance), [])
    assert_equal(os.listdir(os.path.dirname(server.socket)), [])


def end_by_sigterm(place):
    end_by(place, signal.SIGTERM)


def end_by_sigint(place):
    end_by(place, signal.SIGINT)


def end_by_hangup(place):
    end_by(place, signal.SIGHUP)


def stopped_client(place):
    server = place.serve("--memory", "posix")
    instance = server.json("status")["server"]["instance_id"]
    # Connected and silent: it neither reads nor closes.
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.connect(server.socket)
    assert_equal(server.stop(), harness.OK)
    assert_equal(harness.segments_of(instance), [])
    client.close()


def directory_mode(place):
    server = place.serve(preexec_fn=lambda: os.umask(0))
    mode = os.stat(os.path.dirname(server.socket)).st_mode
    assert_equal(stat.S_IMODE(mode), 0o700)


def other_users(place):
    someone = as_nobody()
    if not someone:
        raise harness.Skip("needs root, to be two users")
    os.chmod(place.path, 0o755)
    for access in ("own", "any"):
        server = place.serve("--access", access)
        listed = gearctl("--endpoint", server.endpoint, "table", "ls", **someone)
        assert_equal(listed.returncode == 0, access == "any")
        if access == "own":
            assert_in("not permitted", listed.stderr)
        assert_equal(server.stop(), harness.OK)
        if os.path.isdir(os.path.dirname(server.socket)) and os.path.dirname(server.socket) != place.path:
            os.rmdir(os.path.dirname(server.socket))


def as_nobody():
    """Popen arguments of someone who is not root, and may run the programs."""
    if os.geteuid() != 0:
        return {}
    probe = subprocess.run([harness.GEARD, "--version"], user=NOBODY, check=False,
                           capture_output=True) if os.access(harness.GEARD, os.X_OK) else None
    if probe is None or probe.returncode != 0:
        raise harness.Skip("the build folder is closed to other users")
    return {"user": NOBODY, "group": NOBODY}


class ControlGroup:
    """A memory control group of 64 MiB below this process's own, of either version; Skip where none can be made."""

    LIMIT = 64 << 20

    def __init__(self):
        lines = harness.read_file("/proc/self/cgroup").splitlines()
        groups = {controllers: path for _, controllers, path in (line.split(":", 2) for line in lines)}
        name = f"gear-test-{os.getpid()}"
        for controllers, mount, limit in (("memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                                          ("", "/sys/fs/cgroup", "memory.max")):
            if controllers not in groups:
                continue
            for own in (groups[controllers].strip("/"), ""):  # in a container the mount is this process's group
                self.path = os.path.join(mount, own, name)
                try:
                    os.mkdir(self.path)
                except OSError:
                    continue
                try:
                    with open(os.path.join(self.path, limit), "w", encoding="utf-8") as file:
                        file.write(str(self.LIMIT))
                    return
                except OSError:
                    os.rmdir(self.path)
        raise harness.Skip("no control group for memory can be made here")

    def __enter__(self):
        return self

    def enter(self):
        """As preexec_fn: the new process is in the group."""
        with open(os.path.join(self.path, "cgroup.procs"), "w", encoding="utf-8") as file:
            file.write("0")

    def __exit__(self, *exception):
        with open(os.path.join(self.path, "cgroup.procs"), encoding="utf-8") as file:
            for pid in file.read().split():
                os.kill(int(pid), signal.SIGKILL)
        harness.until("the group is empty", self.remove)

    def remove(self):
        try:
            os.rmdir(self.path)
        except OSError:
            return False
        return True


def control_group(place):
    with ControlGroup() as group:
        server = place.serve(preexec_fn=group.enter)
        before = server.segments()
        for memory in ("posix", "memfd"):
            assert_fails(server.gearctl("table", "create", "large", "--column", "x:u8:1048576", "--capacity", "100",
                                        "--memory", memory),
                         harness.FAILURE, "large", "asked", "control group", "lower capacity")
        assert_equal(server.segments(), before)
        assert_equal(server.gearctl(*TABLE).returncode, harness.OK)
        doctor = harness.run(harness.GEARCTL, "-e", server.endpoint, "doctor", preexec_fn=group.enter)
        harness.assert_match(r"^ok +cgroup .* by the memory limit of control group ", doctor.stdout)
        assert_equal(server.stop(), harness.OK)


def default_socket(place):
    someone = as_nobody()
    runtime = place.file("runtime")
    os.mkdir(runtime)
    os.chmod(place.path, 0o755)
    if someone:
        os.chown(runtime, NOBODY, NOBODY)
    environment = {"XDG_RUNTIME_DIR": runtime}
    server = place.serve("--no-socket", socket=runtime + "/gear/geard.sock",
                         environment=environment, **someone)
    assert os.path.exists(server.socket)
    answer = gearctl("--json", "status", environment=environment, **someone)
    assert_equal(answer.returncode, harness.OK)
    status = json.loads(answer.stdout)
    assert_equal(status["endpoint"], server.endpoint)
    assert_equal(status["server"]["pid"], server.process.pid)


def no_runtime_directory(place):
    if os.path.exists("/run/gear"):
        raise harness.Skip("/run/gear exists")
    assert_fails(geard(**as_nobody()), harness.FAILURE, "/run/gear", "XDG_RUNTIME_DIR", "--socket")


def unknown_option(place):
    assert_fails(geard("--sokcet", "/x"), harness.USAGE, "--sokcet", "--socket")


def unknown_value(place):
    assert_fails(geard("--memory", "postix"), harness.USAGE, "postix", "posix|memfd")
    assert_fails(geard("--log-level", "loud"), harness.USAGE, "loud", "debug|info|warning|error")
    assert_fails(geard("--log-format", "xml"), harness.USAGE, "xml", "text|json")


def help_and_version(place):
    answer = geard("--help")
    assert_equal(answer.returncode, harness.OK)
    for word in ("--config", "--socket", "XDG_RUNTIME_DIR", "Exit status"):
        assert_in(word, answer.stdout)
    answer = geard("--version")
    assert_equal(answer.returncode, harness.OK)
    harness.assert_match(r"^geard \d+\.\d+\.\d+\n$", answer.stdout)


def epoll(place):
    server = place.serve("--no-io-uring")
    assert_equal(server.json("status")["server"]["event_loop"], "epoll")


def memory(place):
    server = place.serve("--memory", "memfd")
    assert_equal(server.gearctl(*TABLE).returncode, harness.OK)
    assert_equal(server.json("table", "describe", "t")["memory"], "memfd")
    assert_equal(server.segments(), [])
    answer = server.gearctl("table", "create", "u", "--column", "x:f32", "--capacity", "100",
                            "--memory", "posix")
    assert_equal(answer.returncode, harness.OK)
    assert server.segments()


def json_log(place):
    server = place.serve("--log-format", "json")
    server.stop()
    lines = [json.loads(line) for line in server.log().splitlines()]
    assert_equal({tuple(line) for line in lines}, {("time", "level", "text")})
    assert_in("serving unix:" + server.socket, [line["text"] for line in lines])
    harness.assert_match(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$", lines[0]["time"])


def log_level(place):
    server = place.start("--log-level", "error")
    harness.until("it answers", lambda: server.gearctl("status").returncode == harness.OK)
    server.stop()
    assert_equal(server.log(), "")


harness.main(globals())
