#!/usr/bin/env python3
"""The arithmetic and the tables of `make bench-peers`; needs no peer."""
# ctest: Peers.RatesAreMediansAndPercentilesAreOverAllCalls timeout=20 -- summary
# ctest: Peers.BytesMovedAreThoseWrittenAndThoseSampled timeout=20 -- moved
# ctest: Peers.WinnerHasTheMostItemsAndTheRatioIsToTheBestPeer timeout=20 -- winner
# ctest: Peers.NumbersKeepThreeDigits timeout=20 -- digits
# ctest: Peers.TablesShowEveryRowAndMarkTheWinner timeout=20 -- tables
# ctest: Peers.OnlyTheTextBetweenTheMarkersIsReplaced timeout=20 -- splice
# ctest: Peers.CpuAndMemoryOfChildrenAreCounted timeout=20 -- processes
# ctest: Peers.EveryWorkHoldsWholeEpisodesAndABatch timeout=20 -- works

import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers"))
import processes  # noqa: E402
import report  # noqa: E402
import rows  # noqa: E402


def repeat(items, seconds, latencies, cpu=0.5, sampled=None, torn=0):
    return {"items": items, "seconds": seconds, "latencies_us": latencies, "cpu_s": cpu,
            "sampled": items if sampled is None else sampled, "torn": torn}


def results():
    def row(name, system, rate, **more):
        return {"row": name, "system": system, "items_per_s": rate, "mb_per_s": rate / 10, "p50_us": 10.0,
                "p99_us": 20.0, "cpu_s_per_gb": 1.5, "torn": 0, "repeats": 5, "resident": 1.25, **more}

    return {
        "machine": {"cores": 2, "processor": "P", "kernel": "6.1", "load": 0.5},
        "settings": {"seconds": 0.5, "repeats": 5},
        "versions": {"gear": {"gear": "0.1.0"}, "other": {"other": "9", "numpy": "1.26"}},
        "notes": ["third: not installed, left out"],
        "rows": [row("a", "gear", 3e6), row("a", "other", 1e6), row("b", "gear", 1e3),
                 row("b", "other", 2e3, torn=7, resident=None)],
    }


def summary():
    repeats = [repeat(100, 1.0, [1, 2]), repeat(300, 1.0, [3, 4]), repeat(400, 2.0, [100, 6], torn=1)]
    row = report.summarise(repeats, 0, 5, 10)
    assert row["items_per_s"] == 200, row
    assert row["mb_per_s"] == 200 * 10 / 1e6, row
    assert (row["p50_us"], row["p99_us"]) == (3, 100), row
    assert abs(row["cpu_s_per_gb"] - 1.5 / (800 * 10 / 1e9)) < 1e-6, row
    assert (row["torn"], row["repeats"]) == (1, 3), row
    assert [report.percentile(range(1, 101), part) for part in (0.5, 0.99, 1.0, 0.0)] == [50, 99, 100, 1]
    assert report.percentile([7], 0.99) == 7
    try:
        report.percentile([], 0.5)
        raise SystemExit("no values gave a percentile")
    except ValueError:
        pass


def moved():
    one = repeat(100, 1.0, [1], sampled=7)
    assert report.moved_bytes(one, 2, 50, 60) == 100 * 50 + 7 * 60
    assert report.moved_bytes(repeat(100, 1.0, [1]), 0, 50, 60) == 100 * 60
    assert report.summarise([one], 2, 50, 60)["mb_per_s"] == 100 * 50 / 1e6


def winner():
    systems = report.by_name(results()["rows"])
    assert list(systems) == ["a", "b"]
    assert (report.winner(systems["a"]), report.ratio(systems["a"])) == ("gear", 3.0)
    assert (report.winner(systems["b"]), report.ratio(systems["b"])) == ("other", 0.5)
    assert report.ratio({"gear": systems["a"]["gear"]}) is None
    assert report.ratio({"other": systems["a"]["other"]}) is None


def digits():
    expected = {0.1234: "0.12", 9.994: "9.99", 9.996: "10.0", 99.94: "99.9", 99.96: "100", 999.4: "999",
                999.6: "1.00k", 1234: "1.23k", 999_499: "999k", 999_600: "1.00M", 12_345_678: "12.3M", 2e9: "2.00G"}
    for value, text in expected.items():
        assert report.short(value) == text, (value, report.short(value), text)


def tables():
    made = results()
    text = report.text_lines("b", report.by_name(made["rows"])["b"])
    assert "*other" in text[1] and "torn 7" in text[1] and "*" not in text[0], text
    page = report.markdown(made)
    for wanted in ("| a | **3.00M** | 1.00M | 3.00 |", "| b | 1.00k | **2.00k** | 0.50 |", "b: other 7.",
                   "| a | gear | 3.00M | 300k | 10.0 | 20.0 | 1.50 | 1.25 |", "numpy 1.26", "- third: not installed",
                   "|  | other | 2.00k | 200 | 10.0 | 20.0 | 1.50 | - |"):
        assert wanted in page, (wanted, page)


def splice():
    page = f"prose\n{report.BEGIN}\nold\n{report.END}\nmore\n"
    assert report.spliced(page, "new\n") == f"prose\n{report.BEGIN}\nnew\n{report.END}\nmore\n"
    for wrong in ("prose", report.BEGIN, f"{report.END}{report.BEGIN}"):
        try:
            report.spliced(wrong, "new")
            raise SystemExit(f"{wrong!r} was taken")
        except ValueError:
            pass


def processes_():
    code = "import sys; held = bytearray(b'x') * (64 << 20); sum(range(20_000_000)); print('up', flush=True); input()"
    parent = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', {code!r}]))"
    child = subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout.readline() == b"up\n"
        assert len(processes.members(child.pid)) == 2
        assert processes.cpu_seconds(child.pid) > 0.05
        assert processes.resident_bytes(child.pid) >= 64 << 20
    finally:
        child.communicate(b"\n")


def works():
    assert len({work.name for work in rows.WORKS}) == len(rows.WORKS)
    for work in rows.WORKS:
        for part in (1, 5):  # the whole table, and the warming one
            run = work.chunk if work.data == "payload" else work.episode
            assert (work.steps // part) // run >= 1, (work, part)
        assert work.data == "payload" or work.steps % work.episode == 0, work
        assert work.steps >= work.batch, work
        assert (work.data == "payload") or not work.writers, work
    cells = [cell for work in rows.WORKS for cell in work.cells()]
    assert len(cells) == 6 + 4 * 3 and ("write 4 kB, 1 writer", 1) in cells and ("write 4 kB, 4 writers", 4) in cells


if __name__ == "__main__":
    {"summary": summary, "moved": moved, "winner": winner, "digits": digits, "tables": tables, "splice": splice,
     "processes": processes_, "works": works}[sys.argv[1]]()
