#!/usr/bin/env python3
"""gearctl against a running geard: what people see, what programs parse, how refusals are told."""
# ctest: Gearctl.StatusInJsonAgreesWithText -- status
# ctest: Gearctl.StatusInJsonKeepsItsKeys -- status_keys
# ctest: Gearctl.TableGoesThroughCreateListDescribeAndRemove -- round_trip
# ctest: Gearctl.CreatePassesEveryOption -- every_option
# ctest: Gearctl.DescribeInJsonKeepsItsKeys -- describe_keys
# ctest: Gearctl.DescribeInTextSaysTheSame -- describe_text
# ctest: Gearctl.CreateTakesEveryDtype -- dtypes
# ctest: Gearctl.RemoveTakesSeveralNames -- remove_several
# ctest: Gearctl.HandleLeadsToTheServer -- handle
# ctest: Gearctl.NamesThatWouldDriveATerminalAreEscaped -- escaped
# ctest: Gearctl.RefusalCarriesItsStatus -- refusals
# ctest: Gearctl.CommandLineFaultsNameWhatWasMeant -- command_line
# ctest: Gearctl.NoServerHasAnExitStatusOfItsOwn -- no_server
# ctest: Gearctl.PrintsHelpAndVersion -- help_and_version
# ctest: Gearctl.DoctorExaminesTheMachine -- doctor
# ctest: Gearctl.DoctorFailsOverAnEndpointThatDoesNotAnswer -- doctor_no_server
# ctest: Gearctl.OptionsMayFollowTheCommand -- options_last
# ctest: Gearctl.SetRetunesTheLimiterOfATableInUse -- set_limiter
# ctest: Gearctl.SetReleasesAWriterThatTheLimiterHoldsBack -- set_releases_writer
# ctest: Gearctl.SetRaisesThePolicyVersionAndNeverLowersIt -- set_version
# ctest: Gearctl.SetThatIsRefusedChangesNothing -- set_refused
# ctest: Gearctl.SetWithoutAnythingToSetIsAUsageError -- set_nothing
# ctest: Gearctl.GroupsTellLagAndWhatIsInFlight -- groups
# ctest: Gearctl.DropGroupRemovesGroups -- drop_group
# ctest: Gearctl.FsckFindsNothingInATableInUse -- fsck_sound
# ctest: Gearctl.FsckNamesAWordThatBreaksItsRule -- fsck_broken
# ctest: Gearctl.SelectorsAreReadBeforeTheServerIsAsked -- selectors
# ctest: Gearctl.CreatePassesNamedSelectorsToTheServer -- named_selectors
# ctest: Gearctl.CreateTakesEverySelector -- every_selector
# ctest: Gearctl.DescribeTellsBytesVersionsAndPromptGroups -- describe_sharing

import json
import os
import socket
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import libgear  # noqa: E402
from harness import assert_equal, assert_fails, assert_in, gearctl  # noqa: E402

DTYPES = {"bool": 1, "u8": 1, "i8": 1, "u16": 2, "i16": 2, "u32": 4, "i32": 4, "u64": 8, "i64": 8,
          "f16": 2, "bf16": 2, "f32": 4, "f64": 8, "c64": 8}


def create(server, name, *arguments):
    answer = server.gearctl("table", "create", name, *arguments)
    assert_equal((answer.returncode, answer.stderr), (harness.OK, ""))
    return answer


def small(server, name):
    return create(server, name, "--column", "x:f32", "--capacity", "100")


def rows_of(text, header):
    """Rows below a header line, split at two spaces or more."""
    lines = text.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith(header))
    return [line.split() for line in lines[begin + 1:] if line]


def status(place):
    server = place.serve()
    small(server, "first")
    small(server, "second")
    document = server.json("status")
    text = server.gearctl("status").stdout
    assert_equal(document["endpoint"], server.endpoint)
    assert_in(server.endpoint, text)
    assert_equal(document["server"]["pid"], server.process.pid)
    assert_in(f"pid {server.process.pid},", text)
    assert_in(document["server"]["event_loop"], text)
    assert_in(f"clients {document['server']['clients']} ", text)
    assert_equal(document["server"]["tables"], 2)
    ours = [row[:8] for row in rows_of(text, "TABLE")]
    keys = ("name", "state", "items", "capacity_items", "steps", "inserts", "samples", "lanes_open")
    assert_equal(ours, [[str(table[key]) for key in keys] for table in document["tables"]])


def status_keys(place):
    server = place.serve()
    small(server, "t")
    document = server.json("status")
    assert_equal(list(document), ["endpoint", "server", "tables"])
    assert_equal(list(document["server"]),
                 ["pid", "version", "layout_version", "layout_fingerprint", "instance_id",
                  "uptime_ns", "event_loop", "clients", "tables", "writers", "samplers", "records",
                  "wakeups"])
    assert_equal(list(document["tables"][0]),
                 ["name", "state", "items", "capacity_items", "steps", "inserts", "samples",
                  "lanes_open", "bytes"])


def round_trip(place):
    server = place.serve()
    assert_equal(server.gearctl("table", "ls").stdout, "no tables\n")
    small(server, "t")
    assert_equal([table["name"] for table in server.json("table", "ls")["tables"]], ["t"])
    assert_equal(rows_of(server.gearctl("table", "ls").stdout, "TABLE")[0][0], "t")
    description = server.json("table", "describe", "t")
    assert_equal((description["name"], description["capacity_items"]), ("t", 100))
    assert_equal(server.gearctl("table", "rm", "t").stdout, 'removed table "t"\n')
    assert_equal(server.json("table", "ls"), {"tables": []})
    assert_fails(server.gearctl("table", "describe", "t"), harness.FAILURE, "GEAR_ENOTFOUND", '"t"')
    small(server, "t")


def every_option(place):
    server = place.serve()
    create(server, "t", "--column", "obs:u8:2x3", "--column", "goal:f64:4:episode",
           "--capacity", "2k", "--items", "sequence:8:4", "--short-episodes", "none",
           "--sampler", "prioritized", "--remover", "uniform", "--priority-alpha", "0",
           "--priority-epsilon", "1e-3", "--max-times-sampled", "3",
           "--limiter", "ratio:4:100:500", "--capacity-steps", "16Ki",
           "--episode-steps-max", "1000", "--lanes-max", "5", "--block-steps", "32",
           "--window-before-max", "7", "--window-after-max", "9", "--memory", "memfd",
           "--huge-pages", "try", "--populate", "try", "--lock", "no", "--numa-node", "-1",
           "--lease-timeout", "1500ms", "--capacity-bytes", "64Mi", "--versions", "yes",
           "--prompt-groups-max", "12", "--mode", "0640", "--payload-isolation", "per_writer",
           "--writers-max", "3")
    ours = server.json("table", "describe", "t")
    wanted = {"capacity_items": 2000, "items": "sequence", "item_length": 8, "item_period": 4,
              "short_episodes": "none", "sampler": "prioritized", "remover": "uniform",
              "priority_alpha": 0.0, "priority_epsilon": 1e-3, "max_times_sampled": 3,
              "episode_steps_max": 1000, "lanes_max": 5, "block_steps": 32, "window_before_max": 7,
              "window_after_max": 9, "memory": "memfd", "direct": False,
              "capacity_bytes": 64 << 20, "versions": True, "prompt_groups_max": 12,
              "mode": "0640", "owner_uid": os.getuid(), "owner_gid": os.getgid(),
              "payload_isolation": "per_writer", "writers_max": 3}
    assert_equal({key: ours[key] for key in wanted}, wanted)
    assert_in("3 writers at most", server.gearctl("table", "describe", "t").stdout)
    assert ours["capacity_steps"] >= 16384, ours["capacity_steps"]
    assert_equal(ours["limiter"], {"samples_per_insert": 4, "min_size": 100, "min_diff": -100,
                                   "max_diff": 900})


def describe_keys(place):
    server = place.serve()
    small(server, "t")
    ours = server.json("table", "describe", "t")
    assert_equal(list(ours),
                 ["name", "state", "table_id", "capacity_items", "capacity_bytes",
                  "capacity_steps", "episode_steps_max", "items", "item_length", "item_period", "short_episodes",
                  "sampler", "remover", "priority_alpha", "priority_epsilon", "half_life",
                  "top_k", "selector_count", "new_priority", "table_weights", "versions",
                  "prompt_groups_max", "max_times_sampled", "limiter", "direct", "lanes_max", "window_before_max", "window_after_max",
                  "block_steps", "block_count", "block_bytes", "directory_bytes", "data_bytes",
                  "memory", "owner_uid", "owner_gid", "mode", "payload_isolation", "writers_max",
                  "columns", "stats"])
    assert_equal(list(ours["columns"][0]),
                 ["name", "dtype", "element_bytes", "shape", "per_episode", "optional", "cell_bytes"])
    assert_equal(list(ours["stats"]),
                 ["items", "inserts", "samples", "deletes", "evictions", "steps", "episodes",
                  "blocks_free", "lanes_open", "priority_max", "bytes", "version", "items_hidden",
                  "prompt_groups_dropped", "items_rejected"])
    assert_equal(ours["limiter"]["max_diff"], None)


def describe_text(place):
    server = place.serve()
    create(server, "t", "--column", "obs:u8:84x84", "--capacity", "100", "--sampler", "prioritized")
    ours = server.json("table", "describe", "t")
    text = server.gearctl("table", "describe", "t").stdout
    for words in ("0 of 100 items", "prioritized, alpha 0.6", "84x84",
                  f"{ours['block_count']}, each {ours['block_steps']} steps", ours["memory"]):
        assert_in(words, text)


def dtypes(place):
    server = place.serve()
    arguments = []
    for name in DTYPES:
        arguments += ["--column", f"of {name}:{name}:3"]
    create(server, "t", *arguments, "--column", "raw:bytes5:2", "--capacity", "10")
    columns = server.json("table", "describe", "t")["columns"]
    assert_equal([(c["dtype"], c["element_bytes"], c["cell_bytes"]) for c in columns],
                 [(name, size, 3 * size) for name, size in DTYPES.items()] + [("bytes", 5, 10)])


def remove_several(place):
    server = place.serve()
    for name in ("a", "b", "c"):
        small(server, name)
    assert_equal(server.json("table", "rm", "a", "c"), {"removed": ["a", "c"]})
    assert_equal([table["name"] for table in server.json("table", "ls")["tables"]], ["b"])
    # Those that are there go, whatever else was named.
    small(server, "a")
    answer = assert_fails(server.gearctl("table", "rm", "none", "a", "b"), harness.FAILURE, '"none"', "[GEAR_ENOTFOUND]")
    assert_equal(answer.stdout, 'removed table "a"\nremoved table "b"\n')
    answer = server.gearctl("--json", "table", "rm", "none")
    assert_equal(json.loads(answer.stdout)["removed"], [])
    assert_equal(json.loads(answer.stdout)["error"]["status"], "GEAR_ENOTFOUND")


def handle(place):
    server = place.serve()
    small(server, "t")
    text = server.gearctl("table", "handle", "t").stdout
    harness.assert_match(r"^[A-Za-z0-9_-]{64}\n$", text)
    assert_equal(server.json("table", "handle", "t"), {"name": "t", "handle": text.strip()})
    by_handle = harness.gearctl_json("--endpoint", "handle:" + text.strip(), "status")
    assert_equal(by_handle["server"]["pid"], server.process.pid)


def escaped(place):
    server = place.serve()
    small(server, "red \x1b[31m ü")
    text = server.gearctl("table", "ls").stdout
    assert_in("red \\x1b[31m ü", text)
    assert "\x1b" not in text
    assert_equal(server.json("table", "ls")["tables"][0]["name"], "red \x1b[31m ü")


def refusals(place):
    server = place.serve()
    small(server, "t")
    cases = [(["table", "create", "t", "--column", "x:f32", "--capacity", "1"], "GEAR_EEXISTS"),
             (["table", "rm", "none"], "GEAR_ENOTFOUND"),
             (["table", "create", "u", "--column", "x:f32", "--column", "x:f32", "--capacity", "1"],
              "GEAR_EDUPLICATE"),
             (["table", "create", "n" * 256, "--column", "x:f32", "--capacity", "1"], "GEAR_ENAME"),
             (["table", "create", "u", "--column", "x:u8:1000000000", "--capacity", "1G"],
              "GEAR_ESIZE")]
    for arguments, name in cases:
        assert_fails(server.gearctl(*arguments), harness.FAILURE, f"[{name}]")
        answer = server.gearctl("--json", *arguments)
        assert_equal(answer.returncode, harness.FAILURE)
        fault = json.loads(answer.stdout)["error"]
        assert_equal(list(fault), ["status", "code", "text"])
        assert_equal(fault["status"], name)
        assert fault["code"] < 0
    assert_equal([table["name"] for table in server.json("table", "ls")["tables"]], ["t"])


def command_line(place):
    small_table = ["table", "create", "t", "--capacity", "1", "--column"]
    assert_fails(gearctl("statsu"), harness.USAGE, "status")
    assert_fails(gearctl("table", "creat", "t"), harness.USAGE, "create")
    assert_fails(gearctl(), harness.USAGE)
    assert_fails(gearctl(*small_table, "x:f32", "--samplr", "fifo"), harness.USAGE, "--sampler")
    assert_fails(gearctl(*small_table, "x:f32", "--sampler", "fifi"), harness.USAGE, '"fifo"')
    assert_fails(gearctl(*small_table, "x"), harness.USAGE, "name:dtype")
    assert_fails(gearctl(*small_table, "x:f32:0"), harness.USAGE, "at least 1")
    assert_fails(gearctl(*small_table, "x:bytes"), harness.USAGE, "bytes16")
    assert_fails(gearctl("table", "create", "t", "--column", "x:f32"), harness.USAGE, "capacity")
    assert_fails(gearctl("table", "create", "t", "--column", "x:f32", "--capacity", "0"),
                 harness.USAGE, "--capacity-items")
    assert_fails(gearctl(*small_table, "x:f32", "--items", "sequence"), harness.USAGE,
                 "sequence:LENGTH")
    assert_fails(gearctl(*small_table, "x:f32", "--queue", "5", "--stack", "5"), harness.USAGE,
                 "leave out one")
    assert_fails(gearctl(*small_table, "x:f32:episode:optional"), harness.USAGE, "leave out one")
    assert_fails(gearctl(*small_table, "x:f32", "--half-lif", "5"), harness.USAGE, "--half-life")
    assert_fails(gearctl(*small_table, "x:f32", "--new-priority", "tablemax"), harness.USAGE,
                 '"table_max"')
    assert_fails(gearctl("table", "drop-groups", "t", "g"), harness.USAGE, "drop-group")
    assert_fails(gearctl("table", "drop-group", "t"), harness.USAGE, "GROUP")


def no_server(place):
    nothing = "unix:" + place.file("nothing.sock")
    assert_fails(gearctl("-e", nothing, "status"), harness.NO_SERVER, "GEAR_ENOSERVER")
    regular = "unix:" + place.file("regular", "")
    assert_fails(gearctl("-e", regular, "status"), harness.NO_SERVER, "GEAR_ENOTSOCKET")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(place.file("stale.sock"))
    listener.close()
    stale = "unix:" + place.file("stale.sock")
    answer = assert_fails(gearctl("--json", "-e", stale, "table", "ls"), harness.NO_SERVER,
                          "GEAR_ESTALESOCKET")
    assert_equal(json.loads(answer.stdout)["error"]["status"], "GEAR_ESTALESOCKET")
    assert_fails(gearctl("-e", "pigeon:coop", "status"), harness.FAILURE, "GEAR_EINVAL")


def help_and_version(place):
    for arguments in (["--help"], ["table", "--help"], ["table", "create", "--help"],
                      ["table", "set", "--help"], ["table", "groups", "--help"],
                      ["doctor", "--help"]):
        answer = gearctl(*arguments)
        assert_equal(answer.returncode, harness.OK)
        assert_in("Usage:", answer.stdout)
    harness.assert_match(r"^gearctl \d+\.\d+\.\d+\n$", gearctl("--version").stdout)


def doctor(place):
    server = place.serve()
    document = server.json("doctor") if server.gearctl("doctor").returncode == 0 else json.loads(
        server.gearctl("--json", "doctor").stdout)
    findings = document["findings"]
    assert_equal([finding["check"] for finding in findings],
                 ["shm", "cgroup", "memlock", "nofile", "huge_pages", "thp", "io_uring", "memfd",
                  "pidfd", "cuda", "rdma", "server"])
    for finding in findings:
        assert_equal(list(finding), ["check", "status", "found", "remedy"])
        assert finding["found"]
        if finding["status"] != "ok":
            assert finding["remedy"], finding
    for status_name in ("ok", "warn", "fail"):
        assert_equal(document[status_name],
                     sum(finding["status"] == status_name for finding in findings))
    assert_equal(findings[-1]["status"], "ok")
    answer = server.gearctl("doctor")
    assert_equal(answer.returncode, harness.FAILURE if document["fail"] else harness.OK)
    for finding in findings:
        harness.assert_match(rf"^{finding['status']} +{finding['check']} ", answer.stdout)


def doctor_no_server(place):
    nothing = "unix:" + place.file("nothing.sock")
    answer = gearctl("--json", "-e", nothing, "doctor")
    assert_equal(answer.returncode, harness.FAILURE)
    server = json.loads(answer.stdout)["findings"][-1]
    assert_equal(server["status"], "fail")
    assert_in(nothing, server["found"])
    assert_in("start geard", server["remedy"])


def options_last(place):
    server = place.serve()
    answer = gearctl("table", "ls", "--json", "--endpoint", server.endpoint)
    assert_equal(json.loads(answer.stdout), {"tables": []})
    answer = gearctl("table", "ls", "--json", environment={"GEAR_ENDPOINT": server.endpoint})
    assert_equal(json.loads(answer.stdout), {"tables": []})



# SEMANTICS 11
def set_limiter(place):
    server = place.serve()
    small(server, "t")
    answer = server.gearctl("table", "set", "t", "--limiter", "bounds:4:1:-100:50")
    assert_equal((answer.returncode, answer.stderr), (harness.OK, ""))
    assert_equal(answer.stdout, server.gearctl("table", "describe", "t").stdout)
    assert_in("samples_per_insert 4, min_size 1, min_diff -100, max_diff 50", answer.stdout)
    document = server.json("table", "set", "t", "--limiter", "min_size:7")
    assert_equal(document["limiter"], {"samples_per_insert": 1, "min_size": 7, "min_diff": None,
                                       "max_diff": None})
    assert_equal(document, server.json("table", "describe", "t"))


# SEMANTICS 11
def set_releases_writer(place):
    server = place.serve()
    create(server, "t", "--column", "x:f32", "--capacity", "1000", "--limiter", "bounds:1:1:0:2")
    with libgear.Peer(server.endpoint, "t") as peer:
        writer = peer.writer()
        assert_equal([peer.append(writer, i, harness.WAIT_S) for i in range(2)], [0, 0])
        assert_equal(peer.flush(writer, harness.WAIT_S), 0)
        # The third insertion waits in the limiter: it is accepted at the most, and not admitted.
        peer.append(writer, 2, 0)
        assert_equal(peer.flush(writer, 0.05), libgear.ETIMEDOUT)
        assert_equal(server.json("table", "describe", "t")["stats"]["inserts"], 2)

        answers = []

        def write():
            answers.append([peer.append(writer, i, harness.WAIT_S) for i in range(3, 20)])
            answers.append(peer.flush(writer, harness.WAIT_S))
        thread = threading.Thread(target=write)
        thread.start()
        document = server.json("table", "set", "t", "--limiter", "min_size:1")
        thread.join()
        assert_equal(document["limiter"]["max_diff"], None)
        assert_equal(answers, [[0] * 17, 0])
    assert server.json("table", "describe", "t")["stats"]["inserts"] >= 19


def set_version(place):
    server = place.serve()
    create(server, "t", "--column", "x:f32", "--capacity", "10", "--versions", "yes")
    assert_equal(server.json("table", "describe", "t")["stats"]["version"], 0)
    document = server.json("table", "set", "t", "--policy-version", "12")
    assert_equal(document["stats"]["version"], 12)
    harness.assert_match(r"^policy version +12$", server.gearctl("table", "describe", "t").stdout)
    both = server.json("table", "set", "t", "--policy-version", "5", "--limiter", "min_size:3")
    assert_equal((both["stats"]["version"], both["limiter"]["min_size"]), (12, 3))


def set_refused(place):
    server = place.serve()
    small(server, "t")
    before = server.json("table", "describe", "t")
    answer = server.gearctl("table", "set", "t", "--policy-version", "3", "--limiter", "min_size:9")
    assert_fails(answer, harness.FAILURE, "GEAR_ESTATE", "versions", '"t"')
    assert_fails(server.gearctl("table", "set", "t", "--limiter", "bounds:1:1:5:2"),
                 harness.FAILURE, "GEAR_EINVAL")
    assert_fails(server.gearctl("table", "set", "none", "--limiter", "min_size:9"), harness.FAILURE,
                 "GEAR_ENOTFOUND")
    assert_equal(server.json("table", "describe", "t"), before)


def set_nothing(place):
    assert_fails(gearctl("table", "set", "t"), harness.USAGE, "--limiter", "--policy-version")
    assert_fails(gearctl("table", "set"), harness.USAGE, "NAME")
    assert_fails(gearctl("table", "set", "t", "--limiter", "min_size:0"), harness.USAGE,
                 "--limiter", "min_size")
    assert_fails(gearctl("table", "set", "t", "--limiter", "speed:1"), harness.USAGE, "not a limiter")
    assert_fails(gearctl("table", "set", "t", "--policy-version", "-1"), harness.USAGE,
                 "--policy-version")
    assert_fails(gearctl("table", "set", "t", "--limitr", "min_size:1"), harness.USAGE, "--limiter")


# SEMANTICS 46
def groups(place):
    server = place.serve()
    small(server, "t")
    assert_equal(server.gearctl("table", "groups", "t").stdout, "no groups\n")
    assert_equal(server.json("table", "groups", "t"), {"table": "t", "groups": []})
    with libgear.Peer(server.endpoint, "t") as peer:
        writer = peer.writer()
        assert_equal([peer.append(writer, i, harness.WAIT_S) for i in range(10)], [0] * 10)
        assert_equal(peer.flush(writer, harness.WAIT_S), 0)
        trainer, _ = peer.consumer("trainer"), peer.consumer("critic")
        first, _ = peer.sample(trainer, 3), peer.sample(trainer, 2)
        peer.release(first)
        keys = ["name", "consumers", "lag", "in_flight", "delivered", "acknowledged",
                "redelivered", "missed", "skipped"]
        wanted = [["trainer", 1, 5, 2, 5, 3, 0, 0, 0], ["critic", 1, 10, 0, 0, 0, 0, 0, 0]]

        def settled():
            document = server.json("table", "groups", "t")
            assert_equal([list(group) for group in document["groups"]], [keys, keys])
            return [list(group.values()) for group in document["groups"]] == wanted
        harness.until("the release is counted", settled)
        text = server.gearctl("table", "groups", "t").stdout
        assert_equal(rows_of(text, "GROUP"), [[str(value) for value in row] for row in wanted])
    assert_fails(server.gearctl("table", "groups", "none"), harness.FAILURE, "GEAR_ENOTFOUND")


def drop_group(place):
    server = place.serve()
    small(server, "t")
    with libgear.Peer(server.endpoint, "t") as peer:
        for name in ("a", "b", "c", "d"):
            peer.consumer(name)
        answer = server.gearctl("table", "drop-group", "t", "b")
        assert_equal((answer.returncode, answer.stdout),
                     (harness.OK, 'dropped group "b" of table "t"\n'))
        assert_equal(server.json("table", "drop-group", "t", "a"), {"table": "t", "dropped": ["a"]})
        left = server.json("table", "groups", "t")["groups"]
        assert_equal([group["name"] for group in left], ["c", "d"])
        assert_fails(server.gearctl("table", "drop-group", "t", "b"), harness.FAILURE,
                     "GEAR_ENOTFOUND", '"b"')
        assert_equal(server.json("table", "drop-group", "t", "c", "d")["dropped"], ["c", "d"])
    assert_equal(server.json("table", "groups", "t")["groups"], [])


def fsck_sound(place):
    server = place.serve()
    small(server, "t")
    with libgear.Peer(server.endpoint, "t") as peer:
        writer = peer.writer()
        assert_equal([peer.append(writer, i, harness.WAIT_S) for i in range(150)], [0] * 150)
        answer = server.gearctl("fsck", "t", "--online")
        assert_equal((answer.returncode, answer.stdout), (harness.OK, 'table "t" keeps its rules\n'))
        assert_equal(server.json("fsck", "--online", "t"), {"table": "t", "findings": []})
    assert_fails(server.gearctl("fsck", "t"), harness.USAGE, "--online")
    assert_fails(server.gearctl("fsck", "none", "--online"), harness.FAILURE, "GEAR_ENOTFOUND")


def fsck_broken(place):
    server = place.serve()
    small(server, "t")
    pid = server.json("status")["server"]["pid"]
    folder = f"/proc/{pid}/fd"
    segments = [f"{folder}/{fd}" for fd in os.listdir(folder) if "directory" in os.readlink(f"{folder}/{fd}")]
    with open(segments[0], "r+b") as directory:
        directory.seek(376)  # TableHeader::item_policy
        directory.write(b"\x63\0\0\0")
    answer = server.gearctl("fsck", "t", "--online")
    assert_equal(answer.returncode, harness.FAILURE)
    assert_in("item policy 99", answer.stdout)


# SEMANTICS 22
def selectors(place):
    table = ["table", "create", "t", "--capacity", "1", "--column", "x:f32", "--selector"]
    assert_fails(gearctl(*table, "recent:recensy:1:5"), harness.USAGE, "--selector",
                 'did you mean "recency"?')
    assert_fails(gearctl(*table, "recent"), harness.USAGE, "NAME:KIND")
    assert_fails(gearctl(*table, "recent:recency:0.3"), harness.USAGE, "half_life")
    assert_fails(gearctl(*table, "newest:lifo:1:5"), harness.USAGE, "no parameter")
    assert_fails(gearctl(*table, "all:mixture"), harness.USAGE, "table's sampler")
    many = [word for i in range(5) for word in ("--selector", f"s{i}:fifo")]
    server = place.serve()
    assert_fails(server.gearctl(*table[:-1], *many), harness.FAILURE, "5 named selectors", "at most 4")


# SEMANTICS 22
def named_selectors(place):
    server = place.serve()
    create(server, "t", "--column", "x:f32", "--column", "reply:i32:optional", "--capacity", "10",
           "--sampler", "mixture", "--selector", "recent:recency:0.3:10k", "--selector",
           "hard:prioritized:0.7:0", "--selector", "best:top_k:0:4", "--table-weights", "yes",
           "--new-priority", "table_max")
    ours = server.json("table", "describe", "t")
    wanted = {"sampler": "mixture", "selector_count": 3, "table_weights": True,
              "new_priority": "table_max"}
    assert_equal({key: ours[key] for key in wanted}, wanted)
    assert_equal([(c["name"], c["optional"]) for c in ours["columns"]],
                 [("x", False), ("reply", True)])
    text = server.gearctl("table", "describe", "t").stdout
    for words in ("mixture; 3 named beside it", "largest priority in the table", "table weights",
                  "step, optional"):
        assert_in(words, text)
    other = ["table", "create", "u", "--column", "x:f32", "--capacity", "10", "--selector", "a:fifo"]
    assert_fails(server.gearctl(*other, "--selector", "a:lifo"), harness.FAILURE, "GEAR_EDUPLICATE",
                 '"a"')
    assert_fails(server.gearctl(*other, "--sampler", "mixture"), harness.FAILURE, "GEAR_EINVAL",
                 "proportion")


# SEMANTICS 22
def every_selector(place):
    server = place.serve()
    named = ["--selector", "a:fifo:1"]
    more = {"top_k": ["--top-k", "7"], "recency": ["--half-life", "2.5"], "mixture": named}
    for name in ("uniform", "fifo", "lifo", "prioritized", "max_heap", "min_heap", "top_k",
                 "recency", "mixture"):
        create(server, name, "--column", "x:f32", "--capacity", "10", "--sampler", name,
               *more.get(name, []))
        assert_equal(server.json("table", "describe", name)["sampler"], name)
        if name not in more:
            create(server, name + " out", "--column", "x:f32", "--capacity", "10", "--remover", name)
            assert_equal(server.json("table", "describe", name + " out")["remover"], name)
    assert_equal(server.json("table", "describe", "top_k")["top_k"], 7)
    assert_in("top_k, k 7", server.gearctl("table", "describe", "top_k").stdout)
    assert_equal(server.json("table", "describe", "recency")["half_life"], 2.5)
    assert_in("recency, half-life 2.5", server.gearctl("table", "describe", "recency").stdout)
    create(server, "stack", "--column", "x:f32", "--stack", "5")
    ours = server.json("table", "describe", "stack")
    assert_equal((ours["sampler"], ours["remover"], ours["capacity_items"],
                  ours["limiter"]["max_diff"]), ("lifo", "lifo", 5, 5))


def describe_sharing(place):
    server = place.serve()
    create(server, "t", "--column", "x:f32", "--capacity", "100", "--capacity-bytes", "200",
           "--versions", "yes", "--prompt-groups-max", "7")
    with libgear.Peer(server.endpoint, "t") as peer:
        writer = peer.writer()
        assert_equal([peer.append(writer, i, harness.WAIT_S) for i in range(60)], [0] * 60)
        assert_equal(peer.flush(writer, harness.WAIT_S), 0)
    ours = server.json("table", "describe", "t")
    assert_equal((ours["stats"]["items"], ours["stats"]["bytes"]), (50, 200))
    text = server.gearctl("table", "describe", "t").stdout
    for words in ("50 of 100 items, 200 B of 200 B", "at most 7 incomplete; 0 items hidden, 0 groups",
                  "items rejected 0", "policy version"):
        assert_in(words, text)
    small(server, "plain")
    plain = server.gearctl("table", "describe", "plain").stdout
    assert "prompt groups" not in plain and "policy version" not in plain, plain


harness.main(globals())
