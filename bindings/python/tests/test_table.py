"""Creating, opening and describing tables."""

from __future__ import annotations

import gear
import numpy as np
import pytest
from steps import filled


def test_described_table_shows_the_options_it_was_created_with(client):
    table = client.create_table(
        "replay",
        {
            "frame": ("uint8", (84, 84)),
            "reward": "float32",
            "name": gear.Column("V16", per_episode=True),
        },
        capacity_items=500,
        sampler="prioritized",
        priority_alpha=0.7,
        priority_epsilon=0.01,
        limiter=gear.Limiter.ratio(2.0, 10, 100.0),
        lanes_max=3,
        window_before_max=5,
    )
    info = table.describe()
    assert info.name == "replay"
    assert info.columns == {
        "frame": gear.Column("uint8", (84, 84)),
        "reward": gear.Column("float32"),
        "name": gear.Column("V16", per_episode=True),
    }
    assert list(info.columns) == ["frame", "reward", "name"]
    assert (info.capacity_items, info.items, info.sampler, info.remover) == (
        500, "step", "prioritized", "fifo",
    )  # fmt: skip
    assert (info.priority_alpha, info.priority_epsilon) == (0.7, 0.01)
    assert info.limiter == gear.Limiter(2.0, 10, -80.0, 120.0)
    assert (info.lanes_max, info.window_before_max, info.direct) == (3, 5, False)


def test_alpha_of_zero_is_kept_apart_from_the_default(client):
    options = {"sampler": "prioritized", "columns": {"x": "float32"}, "capacity_items": 10}
    assert client.create_table("zero", priority_alpha=0.0, **options).describe().priority_alpha == 0
    assert client.create_table("default", **options).describe().priority_alpha == 0.6


def test_stats_count_steps_items_and_episodes(table):
    writer = filled(table, 7)
    writer.end_episode(0, gear.TERMINATED)
    writer.flush()
    stats = table.stats()
    assert (stats.state, stats.steps, stats.items, stats.inserts) == ("open", 7, 7, 7)
    assert (stats.episodes, stats.deletes, stats.lanes_open) == (1, 0, 1)


def test_tables_are_listed_opened_and_dropped_by_name(client):
    for name in ("a", "b"):
        client.create_table(name, {"x": "float32"}, 10)
    assert client.tables() == ["a", "b"]
    assert client.open_table("a").describe().name == "a"
    client.drop("a")
    assert client.tables() == ["b"]
    with pytest.raises(gear.NotFound):
        client.open_table("a")


def test_name_in_use_raises_exists(client, table):
    with pytest.raises(gear.Exists):
        client.create_table("t", {"x": "float32"}, 10)


def test_handle_attaches_to_the_same_table(client, table):
    filled(table, 4)
    assert len(table.handle) == 64
    assert client.attach(table.handle).stats().steps == 4
    with pytest.raises(gear.InvalidArgument):
        client.attach("no handle")


def test_reset_empties_the_table_and_makes_keys_stale(table):
    writer = filled(table, 5)
    with table.sampler(batch=4).sample() as batch:
        keys = batch.keys.copy()
    table.reset()
    assert table.stats().items == 0
    assert table.delete(keys).stale == 4
    writer.close()


def test_closed_table_refuses_appends_and_draws(table):
    writer = filled(table, 5)
    sampler = table.sampler()
    table.close()
    assert table.stats().state == "closed"
    with pytest.raises(gear.Closed):
        sampler.sample(1)
    with pytest.raises(gear.Closed):
        writer.append(0, x=np.zeros(3, np.float32), n=0)


def test_table_cannot_be_detached_under_its_writer(table):
    writer = table.writer()
    with pytest.raises(gear.StateError, match="1 of its writers"):
        table.detach()
    writer.close()
    table.detach()
    table.detach()
    with pytest.raises(gear.StateError, match="given back"):
        table.stats()


def test_queue_gives_each_step_once_and_in_order(client):
    queue = client.create_queue("q", {"n": "int64"}, capacity=10)
    writer = queue.writer()
    for n in range(10):
        writer.append(0, n=n)
    writer.flush()
    writer.append(0, n=10)
    with pytest.raises(gear.TimedOut, match="1 steps"):
        writer.flush(timeout=0.05)
    sampler = queue.sampler(batch=10)
    with sampler.sample(4) as batch:
        assert batch["n"].tolist() == [0, 1, 2, 3]
    writer.flush()
    with sampler.sample(7) as batch:
        assert batch["n"].tolist() == [4, 5, 6, 7, 8, 9, 10]
    with pytest.raises(gear.TimedOut):
        sampler.sample(1, timeout=0.0)


def test_rows_min_hands_out_what_is_there(client):
    queue = client.create_queue("q", {"n": "int64"}, capacity=10)
    writer = queue.writer()
    for n in range(3):
        writer.append(0, n=n)
    writer.flush()
    sampler = queue.sampler(batch=10, rows_min=1)
    with sampler.sample(timeout=0.5) as batch:
        assert batch["n"].tolist() == [0, 1, 2]


def test_server_tells_about_itself(client, table):
    server = client.server()
    assert server.tables == 1
    assert server.clients == 1
    assert server.event_loop in ("io_uring", "epoll")


def test_priorities_are_updated_and_bad_ones_counted(make_table):
    table = make_table(sampler="prioritized")
    filled(table, 20)
    with table.sampler(batch=20, seed=1).sample() as batch:
        keys = np.unique(batch.keys)
    priorities = np.ones(len(keys))
    priorities[0] = np.nan
    result = table.update_priorities(keys, priorities)
    assert result == gear.ItemsResult(len(keys) - 1, 0, 0, 1)
    single = table.update_priorities(keys[1:3], np.array([2, 3], np.float32))
    assert single.updated == 2
    assert table.stats().priority_max == 3.0


def test_deleted_items_are_gone_and_their_keys_stale(table):
    filled(table, 10)
    with table.sampler(batch=8, seed=1).sample() as batch:
        keys = np.unique(batch.keys)
    assert table.delete(keys).updated == len(keys)
    assert table.delete(keys).stale == len(keys)
    assert table.stats().items == 10 - len(keys)


def test_keys_and_priorities_of_wrong_kind_are_refused(table):
    keys = np.zeros(2, np.uint64)
    with pytest.raises(gear.DtypeError):
        table.update_priorities(keys.astype(np.int64), np.ones(2))
    with pytest.raises(gear.DtypeError):
        table.update_priorities(keys, np.ones(2, np.int64))
    with pytest.raises(gear.ShapeError):
        table.update_priorities(keys, np.ones(3))
    with pytest.raises(gear.DtypeError):
        table.delete([1, 2])


@pytest.mark.parametrize(
    ("options", "largest"),
    [
        ({"sampler": "max_heap"}, 1),
        ({"sampler": "top_k", "top_k": 3}, 3),
        ({"sampler": "lifo"}, 1),
        ({"sampler": "recency", "half_life": 1.0}, 10),
    ],
)
def test_every_selector_draws_what_it_should(client, options, largest):
    table = client.create_table("t", {"x": "int64"}, 10, **options)
    writer = table.writer()
    for step in range(10):
        writer.set_priority(0, float(step))
        writer.append(0, {"x": step})
    writer.flush()
    drawn = set()
    for _ in range(8):
        with table.sampler(seed=1).sample(32) as batch:
            drawn |= set(batch["x"].tolist())
    assert 9 in drawn and len(drawn) <= largest


def test_isolated_tables_say_so_and_bound_their_writers(client):
    table = client.create_table(
        "t", {"x": "float32"}, capacity_items=100, payload_isolation="per_writer", writers_max=2
    )
    info = table.describe()
    assert (info.payload_isolation, info.writers_max) == ("per_writer", 2)
    writers = [table.writer() for _ in range(2)]
    with pytest.raises(gear.ResourceError, match="writers_max"):
        table.writer()
    for writer in writers:
        writer.close()
    table.writer().close()
    with pytest.raises(gear.InvalidArgument, match="per_writer"):
        client.create_table("u", {"x": "float32"}, capacity_items=9, payload_isolation="per_lane")
    assert client.create_table("u", {"x": "float32"}, capacity_items=9).describe().writers_max == 0
