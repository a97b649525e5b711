"""Statuses and exceptions."""

from __future__ import annotations

import re
from pathlib import Path

import gear
import pytest
from gear import _gear
from gear.errors import error_of

HEADER = Path(__file__).resolve().parents[3] / "include" / "gear.h"


def test_every_status_of_the_header_has_its_family():
    families = {
        1: gear.InvalidArgument, 2: gear.StateError, 3: gear.ResourceError, 4: gear.ServerError,
    }  # fmt: skip
    statuses = re.findall(r"^  (GEAR_E\w+) = (-\d+)", HEADER.read_text(), re.MULTILINE)
    assert len(statuses) > 30
    for name, number in statuses:
        error = error_of(int(number), "text")
        assert (error.name, error.status, str(error)) == (name, int(number), "text")
        family = families.get(-int(number) // 100, gear.Error)
        assert isinstance(error, family) and type(error) is not gear.Error


def test_exceptions_are_those_python_programs_expect():
    assert issubclass(gear.TimedOut, TimeoutError)
    assert issubclass(gear.ServerError, ConnectionError)
    assert issubclass(gear.InvalidArgument, ValueError)
    assert issubclass(gear.DtypeError, TypeError)
    assert issubclass(gear.NoMemory, MemoryError)


def test_nobody_at_the_endpoint_is_no_server(tmp_path):
    with pytest.raises(gear.NoServer) as caught:
        gear.connect(f"unix:{tmp_path}/none.sock")
    assert caught.value.name == "GEAR_ENOSERVER"
    assert "none.sock" in str(caught.value)
    (tmp_path / "file").write_text("")
    with pytest.raises(gear.NoServer) as caught:
        gear.connect(f"unix:{tmp_path}/file")
    assert caught.value.name == "GEAR_ENOTSOCKET"


def test_unknown_endpoint_is_an_invalid_argument():
    with pytest.raises(gear.InvalidArgument):
        gear.connect("tcp:nowhere")


@pytest.mark.parametrize("timeout", [-1.0, float("nan")])
def test_timeouts_must_be_numbers_that_are_not_negative(table, timeout):
    with pytest.raises(gear.InvalidArgument, match="timeout"):
        table.sampler().sample(1, timeout=timeout)


@pytest.mark.parametrize(
    "options",
    [
        {"columns": {}},
        {"columns": {"x": ("float32", (0,))}},
        {"columns": {"x": ("float32", (1,) * 9)}},
        {"columns": {"x": "datetime64[s]"}},
        {"columns": {"x": ">f4"}},
        {"columns": {"x": "no such dtype"}},
        {"columns": {"": "float32"}},
        {"columns": {"x" * 256: "float32"}},
        {"columns": {"x": gear.Column("float32", per_episode=True)}},
        {"capacity_items": 0},
        {"capacity_items": -1},
        {"capacity_items": 1.5},
        {"items": "frames"},
        {"sampler": "best"},
        {"remover": "recency", "half_life": 10},
        {"sampler": "recency"},
        {"sampler": "top_k"},
        {"sampler": "mixture"},
        {"items": "episode"},
        {"items": "sequence"},
        {"priority_alpha": float("nan"), "sampler": "prioritized"},
    ],
)
def test_table_options_out_of_their_domain_are_invalid_arguments(client, options):
    with pytest.raises(gear.InvalidArgument) as caught:
        client.create_table("t", **{"columns": {"x": "float32"}, "capacity_items": 10, **options})
    assert str(caught.value)
    assert client.tables() == []


def test_capacity_beyond_memory_is_a_resource_error(client):
    with pytest.raises((gear.ResourceError, gear.InvalidArgument)):
        client.create_table("t", {"x": ("float64", (1 << 20,))}, 1 << 30)
    assert client.tables() == []


def test_limiters_are_checked():
    assert gear.Limiter.ratio(4.0, 100, 50.0) == gear.Limiter(4.0, 100, 350.0, 450.0)
    with pytest.raises(gear.InvalidArgument):
        gear.Limiter.ratio(0.0, 100, 50.0)
    with pytest.raises(gear.InvalidArgument):
        gear.Limiter.at_least(0)


def test_status_names_come_from_the_library():
    assert _gear.status_name(-500) == "GEAR_ETIMEDOUT"
