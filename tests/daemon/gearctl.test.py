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

import json
import os
import socket
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
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
           "--lease-timeout", "1500ms")
    ours = server.json("table", "describe", "t")
    wanted = {"capacity_items": 2000, "items": "sequence", "item_length": 8, "item_period": 4,
              "short_episodes": "none", "sampler": "prioritized", "remover": "uniform",
              "priority_alpha": 0.0, "priority_epsilon": 1e-3, "max_times_sampled": 3,
              "episode_steps_max": 1000, "lanes_max": 5, "block_steps": 32, "window_before_max": 7,
              "window_after_max": 9, "memory": "memfd", "direct": False}
    assert_equal({key: ours[key] for key in wanted}, wanted)
    assert ours["capacity_steps"] >= 16384, ours["capacity_steps"]
    assert_equal(ours["limiter"], {"samples_per_insert": 4, "min_size": 100, "min_diff": -100,
                                   "max_diff": 900})


def describe_keys(place):
    server = place.serve()
    small(server, "t")
    ours = server.json("table", "describe", "t")
    assert_equal(list(ours),
                 ["name", "state", "table_id", "capacity_items", "capacity_steps",
                  "episode_steps_max", "items", "item_length", "item_period", "short_episodes",
                  "sampler", "remover", "priority_alpha", "priority_epsilon", "max_times_sampled",
                  "limiter", "direct", "lanes_max", "window_before_max", "window_after_max",
                  "block_steps", "block_count", "block_bytes", "directory_bytes", "data_bytes",
                  "memory", "columns", "stats"])
    assert_equal(list(ours["columns"][0]),
                 ["name", "dtype", "element_bytes", "shape", "per_episode", "cell_bytes"])
    assert_equal(list(ours["stats"]),
                 ["items", "inserts", "samples", "deletes", "evictions", "steps", "episodes",
                  "blocks_free", "lanes_open", "priority_max"])
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


harness.main(globals())
