"""Fixtures: a server inside the test's own process, and tables on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gear
import pytest

STEP_COLUMNS = {"x": ("float32", (3,)), "n": "int64"}


@pytest.fixture
def client() -> Iterator[gear.Client]:
    with gear.connect("embedded:") as client:
        yield client


@pytest.fixture
def make_table(client: gear.Client) -> Callable[..., gear.Table]:
    """make_table(columns=..., capacity_items=..., **options): a table named "t"."""

    def make(columns: Any = STEP_COLUMNS, capacity_items: int = 1000, **options: Any) -> gear.Table:
        return client.create_table("t", columns, capacity_items, **options)

    return make


@pytest.fixture
def table(make_table: Callable[..., gear.Table]) -> gear.Table:
    return make_table()
