#!/usr/bin/env python3
"""geard's configuration file: what it does, and how its faults are told."""
# ctest: Config.GoodFileIsOkAndSaysWhatItTakes -- good
# ctest: Config.SyntaxErrorCarriesLineAndColumn -- syntax
# ctest: Config.UnknownKeyCarriesItsPlaceAndTheNearestKey -- unknown_key
# ctest: Config.WrongValueCarriesItsPlace -- wrong_value
# ctest: Config.WrongTypeCarriesItsPlace -- wrong_type
# ctest: Config.EveryFaultIsToldAtOnce -- several
# ctest: Config.TableThatTheServerWouldRefuseIsRefusedByTheCheck -- refused_table
# ctest: Config.CheckAllocatesNothing -- check_allocates_nothing
# ctest: Config.FileThatCannotBeReadIsNamed -- unreadable
# ctest: Config.CheckWithoutAFileIsAFault -- check_without_file
# ctest: Config.FaultKeepsGeardFromStarting -- no_start
# ctest: Config.DeclaredTablesAreMade -- tables
# ctest: Config.ServerSectionIsObeyed -- server_section
# ctest: Config.CommandLineWinsOverTheFile -- command_line_wins
# ctest: Config.TableBeyondMemoryEndsTheStartAndLeavesNothing -- beyond_memory
# ctest: Config.SelectorFaultsCarryTheirPlace -- selector_faults
# ctest: Config.SelectorsReachTheCheckOfTheServer -- selectors_reach_check
# ctest: Config.TablesTakeBytesVersionsAndPromptGroups -- sharing
# ctest: Config.TakesAccessQuotasAndModes -- access
# ctest: Config.ExampleOfTheManPageIsGood -- man_page

import os
import stat
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from harness import assert_equal, assert_fails, assert_in, geard  # noqa: E402

GOOD = """
[server]
memory = "memfd"
io_uring = false
clients_max = 7
spin = "10us"

[log]
level = "warning"

[[table]]
name = "replay"
capacity_items = "10k"
items = "sequence:80:40"
sampler = "prioritized"
priority_alpha = 0.7
limiter = "min_size:100"
columns = [
  { name = "obs", dtype = "u8", shape = [84, 84] },
  { name = "goal", dtype = "f32", shape = [3], per_episode = true },
  "reward:f32",
]

[[table]]
name = "rollouts"
queue = 64
items = "episode"
episode_steps_max = 128
columns = ["tokens:i32", "blob:bytes16:2"]
"""


def check(place, text):
    path = place.file("geard.toml", text)
    return path, geard("--check-config", "--config", path)


def assert_fault(place, text, line, column, *words):
    path, answer = check(place, text)
    assert_fails(answer, harness.USAGE, f"{path}:{line}:{column}: error: ", *words)
    return answer


def good(place):
    path, answer = check(place, GOOD)
    assert_equal(answer.returncode, harness.OK)
    assert_equal(answer.stderr, "")
    harness.assert_match(r"ok, 2 tables, [\d.]+ [KMG]iB", answer.stdout)
    assert_in(path, answer.stdout)


def syntax(place):
    assert_fault(place, '[server]\nmemory = "posix\n', 2, 16)
    assert_fault(place, "[server\n", 1, 8)
    path, answer = check(place, "[server]\nspin = 1\nspin = 2\n")
    assert_fails(answer, harness.USAGE, f"{path}:3:", "spin")


def unknown_key(place):
    assert_fault(place, "[server]\nmemroy = 1\n", 2, 1, '"memroy" in [server]', 'did you mean "memory"?')
    assert_fault(place, '[log]\nlevle = "info"\n', 2, 1, 'did you mean "level"?')
    assert_fault(place, '[[table]]\n  capacity = 5\n', 2, 3, 'did you mean "capacity_items"?')
    assert_fault(place, '[sever]\n', 1, 2, 'did you mean "server"?')
    assert_fault(place, '[[table]]\ncolumns = [ {nmae = "x", dtype = "f32"} ]\n', 2, 14,
                 'did you mean "name"?')


def wrong_value(place):
    assert_fault(place, '[server]\nmemory = "disk"\n', 2, 10, '"disk"', "posix|memfd")
    assert_fault(place, '[server]\nspin = "20"\n', 2, 8, '"20"', "ns us ms s min h")
    assert_fault(place, "[server]\nclients_max = 0\n", 2, 15, "1 to 1000000")
    assert_fault(place, '[server]\nsocket = "relative.sock"\n', 2, 10, "absolute")
    assert_fault(place, '[[table]]\nsampler = "prioritised"\n', 2, 11, 'did you mean "prioritized"?')
    assert_fault(place, '[[table]]\ncapacity_items = "12 apples"\n', 2, 18, "12 apples", "100k")
    assert_fault(place, '[[table]]\nlimiter = "min_size:0"\n', 2, 11, "min_size")
    assert_fault(place, '[[table]]\ncolumns = ["a:f33"]\n', 2, 12, '"f33"', '"f32"')
    assert_fault(place, '[[table]]\ncolumns = [{name="a", dtype="u8", shape=[84, 0]}]\n', 2, 46,
                 "at least 1")


def wrong_type(place):
    assert_fault(place, "server = 3\n", 1, 10, "server")
    assert_fault(place, "[server]\nio_uring = 1\n", 2, 12, "true or false")
    assert_fault(place, "[server]\nmemory = 5\n", 2, 10, "a string", "integer")
    assert_fault(place, "[[table]]\ncapacity_items = 1.5\n", 2, 18, "whole number")
    assert_fault(place, "[[table]]\ncolumns = 7\n", 2, 11, "array")
    assert_fault(place, '[table]\nname = "x"\n', 1, 2, "[[table]]")


def several(place):
    path, answer = check(place, '[server]\nspin = 5\nmemory = "x"\n[nonsense]\n')
    assert_fails(answer, harness.USAGE)
    places = [line.split(": error: ")[0] for line in answer.stderr.splitlines()]
    assert_equal(places, [f"{path}:2:8", f"{path}:3:10", f"{path}:4:2"])


def refused_table(place):
    head = '\n[[table]]\nname = "t"\n'
    columns = 'columns = ["x:f32"]\n'
    assert_fault(place, head + columns, 2, 1, "capacity_items")
    assert_fault(place, head + "capacity_items = 5\n", 2, 1, "no columns")
    assert_fault(place, head + 'capacity_items = 5\ncolumns = ["x:f32", "x:f32"]\n', 2, 1, '"x"')
    assert_fault(place, head + 'capacity_items = 5\nitems = "episode"\n' + columns, 2, 1,
                 "episode_steps_max")
    assert_fault(place, head + 'queue = 5\nsampler = "uniform"\n' + columns, 2, 1, "queue")
    assert_fault(place, '[[table]]\ncapacity_items = 5\n' + columns, 1, 1, "name")
    twice = head + "capacity_items = 5\n" + columns
    assert_fault(place, twice + twice, 7, 1, "declared above")


def check_allocates_nothing(place):
    huge = GOOD.replace('"10k"', '"4G"').replace('"sequence:80:40"', '"step"')
    _, answer = check(place, huge)
    assert_equal(answer.returncode, harness.OK)
    harness.assert_match(r"\d TiB", answer.stdout)


def unreadable(place):
    path = place.file("nowhere.toml")
    assert_fails(geard("--check-config", "--config", path), harness.USAGE, path, "No such file")
    assert_fails(geard("--config", place.path), harness.USAGE, place.path)


def check_without_file(place):
    assert_fails(geard("--check-config"), harness.USAGE, "--config FILE")


def no_start(place):
    path = place.file("geard.toml", "[server]\nmemroy = 1\n")
    answer = geard("--config", path, "--socket", place.file("geard.sock"))
    assert_fails(answer, harness.USAGE, f"{path}:2:1: error:")
    assert not os.path.exists(place.file("geard.sock"))


def tables(place):
    text = GOOD.replace("warning", "info")
    server = place.serve("--config", place.file("geard.toml", text))
    replay = server.json("table", "describe", "replay")
    wanted = {"capacity_items": 10000, "items": "sequence", "item_length": 80, "item_period": 40,
              "sampler": "prioritized", "priority_alpha": 0.7, "memory": "memfd"}
    assert_equal({key: replay[key] for key in wanted}, wanted)
    assert_equal(replay["limiter"]["min_size"], 100)
    columns = [(c["name"], c["dtype"], c["shape"], c["per_episode"]) for c in replay["columns"]]
    assert_equal(columns, [("obs", "u8", [84, 84], False), ("goal", "f32", [3], True),
                           ("reward", "f32", [], False)])
    rollouts = server.json("table", "describe", "rollouts")
    wanted = {"capacity_items": 64, "sampler": "fifo", "remover": "fifo", "max_times_sampled": 1,
              "episode_steps_max": 128}
    assert_equal({key: rollouts[key] for key in wanted}, wanted)
    assert_equal(rollouts["limiter"]["max_diff"], 64)
    blob = rollouts["columns"][1]
    assert_equal((blob["dtype"], blob["element_bytes"], blob["shape"]), ("bytes", 16, [2]))


def server_section(place):
    socket = place.file("elsewhere.sock")
    path = place.file("geard.toml", f'[server]\nsocket = "{socket}"\nio_uring = false\nclients_max = 2\n')
    server = place.serve("--no-socket", "--config", path, socket=socket)
    assert_equal(server.json("status")["server"]["event_loop"], "epoll")


def command_line_wins(place):
    path = place.file("geard.toml", f'[server]\nsocket = "{place.file("other.sock")}"\n'
                                    'memory = "memfd"\n[log]\nformat = "json"\n')
    server = place.serve("--config", path, "--memory", "posix", "--log-format", "text")
    assert not os.path.exists(place.file("other.sock"))
    create = server.gearctl("table", "create", "t", "--column", "x:f32", "--capacity", "10")
    assert_equal(create.returncode, harness.OK)
    assert_equal(server.json("table", "describe", "t")["memory"], "posix")
    assert not server.log().startswith("{")


def beyond_memory(place):
    text = '[[table]]\nname = "huge"\ncapacity_items = "10M"\ncolumns = ["x:u8:1000000"]\n'
    before = set(os.listdir("/dev/shm"))
    server = place.start("--config", place.file("geard.toml", text), "--memory", "posix")
    assert_equal(server.wait(), harness.FAILURE)
    for word in ('"huge"', "/dev/shm", "TiB"):
        assert_in(word, server.log())
    assert not os.path.exists(server.socket)
    pid = f".{server.process.pid}."
    assert_equal([name for name in set(os.listdir("/dev/shm")) - before if pid in name], [])


# SEMANTICS 22
def selector_faults(place):
    head = "[[table]]\nselectors = ["
    assert_fault(place, head + '"newest:lifo", "recent:recensy:1:5"]\n', 2, 29,
                 'did you mean "recency"?')
    assert_fault(place, head + '"recent:recency:0.3"]\n', 2, 14, "half_life")
    assert_fault(place, head + "7]\n", 2, 14, "name:kind:proportion")
    assert_fault(place, "[[table]]\nselectors = 7\n", 2, 13, "array")
    assert_fault(place, head + '{name="a", kind="lifo", proportoin=1}]\n', 2, 38,
                 'did you mean "proportion"?')
    # The kind decides, wherever it stands among the keys.
    assert_fault(place, head + '{name="a", alpha=0.5, kind="recency"}]\n', 2, 31,
                 "recency takes half_life")
    assert_fault(place, head + '{name="a", kind="recency", half_life=[]}]\n', 2, 51, "10k")
    assert_fault(place, head + '{name="a", kind="mixture"}]\n', 2, 30, "table's sampler")
    assert_fault(place, head + '{kind="fifo"}]\n', 2, 14, "name")
    assert_fault(place, head + '{name="a"}]\n', 2, 14, '"a" has no kind')


def selectors_reach_check(place):
    five = ", ".join(f'"s{i}:fifo"' for i in range(5))
    text = f'[[table]]\nname = "t"\ncapacity_items = 5\ncolumns = ["x:f32"]\nselectors = [{five}]\n'
    assert_fault(place, text, 1, 1, '"t"', "5 named selectors", "at most 4")
    head = '[[table]]\nname = "t"\ncapacity_items = 5\ncolumns = ["x:f32"]\n'
    assert_fault(place, head + 'sampler = "mixture"\n', 1, 1, "mixture", "proportion")
    assert_fault(place, head + 'selectors = ["a:fifo", "a:lifo"]\n', 1, 1, '"a"', "unique")
    good_table = head + """sampler = "mixture"
selectors = [
  "recent:recency:0.3:10k",
  { name = "hard", kind = "prioritized", proportion = 0.7, alpha = 0 },
  { name = "best", kind = "top_k", top_k = "1k" },
]
"""
    server = place.serve("--config", place.file("geard.toml", good_table))
    ours = server.json("table", "describe", "t")
    assert_equal((ours["sampler"], ours["selector_count"]), ("mixture", 3))


def sharing(place):
    text = """
[[table]]
name = "rollouts"
capacity_items = 100
capacity_bytes = "1Ki"
versions = true
prompt_groups_max = 8
table_weights = "no"
new_priority = "lifetime_max"
columns = ["tokens:i32"]
"""
    server = place.serve("--config", place.file("geard.toml", text))
    ours = server.json("table", "describe", "rollouts")
    wanted = {"capacity_bytes": 1024, "versions": True, "prompt_groups_max": 8,
              "table_weights": False, "new_priority": "lifetime_max"}
    assert_equal({key: ours[key] for key in wanted}, wanted)
    assert_fault(place, "[[table]]\nversions = 1\n", 2, 12, "true or false", '"yes"')
    assert_fault(place, '[[table]]\nversions = "maybe"\n', 2, 12, "no|yes")
    assert_fault(place, '[[table]]\nhalf_life = true\n', 2, 13, "a number")
    assert_fault(place, '[[table]]\nhalf_life = -2.5\n', 2, 13, "more than 0")
    both = '[[table]]\nname = "t"\nqueue = 5\nstack = 5\ncolumns = ["x:f32"]\n'
    assert_fault(place, both, 1, 1, "leave out one")
    column = '[[table]]\ncolumns = [{name="s", dtype="f32", per_episode=true, optional=true}]\n'
    assert_fault(place, column, 2, 12, '"s"', "leave out one")
    assert_fault(place, '[[table]]\ncolumns = [{name="s", dtype="f32", optional=1}]\n', 2, 45,
                 "true or false")


def access(place):
    text = """
[server]
access = "any"
user_clients_max = 5
user_channels_max = "1k"
user_lanes_max = 0
user_tables_max = 3
user_table_bytes_max = "2Gi"
user_leased_bytes_max = "100M"
hello_timeout = "2s"

[[table]]
name = "shared"
capacity_items = 10
columns = ["x:f32"]
mode = "0640"
payload_isolation = "per_writer"
writers_max = 5
"""
    server = place.serve("--config", place.file("geard.toml", text))
    assert_equal(stat.S_IMODE(os.stat(server.socket).st_mode), 0o666)
    ours = server.json("table", "describe", "shared")
    assert_equal((ours["mode"], ours["owner_uid"]), ("0640", os.getuid()))
    assert_equal((ours["payload_isolation"], ours["writers_max"]), ("per_writer", 5))
    assert_fault(place, '[[table]]\npayload_isolation = "per_lane"\n', 2, 21, "none|per_writer")
    assert_fault(place, '[server]\naccess = "some"\n', 2, 10, "own|any")
    assert_fault(place, '[server]\nuser_lanes_max = "9G"\n', 2, 18, "0 for no limit")
    assert_fault(place, '[server]\nuser_lane_max = 9\n', 2, 1, "user_lanes_max")
    for mode in ("640x", "1777", "", "0", "888"):
        assert_fault(place, f'[[table]]\nmode = "{mode}"\n', 2, 8, "is not a mode")
    assert_fault(place, "[[table]]\nmode = 0o640\n", 2, 8, "a string")


def man_page(place):
    page = harness.read_file(os.path.join(harness.SOURCE, "docs/man/geard.8.scd"))
    example = page.split("```")[1]
    _, answer = check(place, example)
    assert_equal(answer.stderr, "")
    assert_in("tables", answer.stdout)


harness.main(globals())
