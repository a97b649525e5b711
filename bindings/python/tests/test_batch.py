"""Windows, masks, and how long a batch lives."""

from __future__ import annotations

import gc

import gear
import numpy as np
import pytest
from steps import append_steps, filled, wait_until, x_of


def test_windows_stop_at_the_ends_of_the_episode(table):
    writer = table.writer()
    append_steps(writer, 0, 0, 5)
    writer.end_episode(0, gear.TRUNCATED, x=x_of(5))
    append_steps(writer, 0, 100, 5)
    writer.flush()
    windows = [
        gear.Window("n"),
        gear.Window("n", length=3, name="ahead"),
        gear.Window("n", offset=-2, length=3, name="behind", fill="edge"),
        gear.Window("x", offset=1, name="next"),
    ]
    with table.sampler(batch=200, windows=windows, seed=1).sample() as batch:
        assert batch.names() == ["n", "ahead", "behind", "next"]
        assert "ahead" in batch and "x" not in batch
        assert batch["ahead"].shape == (200, 3) and batch["next"].shape == (200, 3)
        for row, n in enumerate(batch["n"].tolist()):
            end = 5 if n < 50 else 105
            begin = end - 5
            ahead = [k for k in range(n, n + 3) if k < end]
            assert batch["ahead"][row].tolist() == ahead + [0] * (3 - len(ahead))
            assert batch.mask("ahead")[row].tolist() == [True] * len(ahead) + [False] * (
                3 - len(ahead)
            )
            assert batch.lengths("ahead")[row] == len(ahead)
            assert batch["behind"][row].tolist() == [max(k, begin) for k in range(n - 2, n + 1)]
            # Only the first episode has a final observation.
            has_next = n + 1 < end or end == 5
            assert batch.mask("next")[row].tolist() == [has_next]
            assert batch["next"][row, 0] == (n + 1 if has_next else 0)


def test_rows_agree_by_index(make_table):
    table = make_table(sampler="prioritized", priority_alpha=1.0)
    writer = table.writer()
    for n in range(1, 5):
        writer.set_priority(0, float(n))
        append_steps(writer, 0, n, 1)
    writer.flush()
    with table.sampler(batch=50, seed=1, beta=0.5).sample() as batch:
        n = batch["n"]
        assert len(batch) == 50
        assert (batch.priorities == n).all()
        assert np.allclose(batch.probabilities, n / 10)
        weights = (4 * n / 10) ** -0.5
        assert np.allclose(batch.weights, weights / weights.max())
        assert len(set(zip(batch.keys.tolist(), n.tolist(), strict=True))) == len(set(n.tolist()))
        assert (batch.item_lengths == 1).all() and (batch.anchors == 0).all()
        assert batch.times_sampled.shape == (50,)


def test_arrays_are_views_that_export_dlpack(table):
    filled(table, 10)
    batch = table.sampler(batch=8).sample()
    x = batch["x"]
    assert x.base is not None and not x.flags.owndata
    assert batch["x"].__array_interface__["data"] == x.__array_interface__["data"]
    assert np.shares_memory(np.from_dlpack(x), x)
    x += 1
    assert (batch["x"] == x).all()
    for array in (batch.keys, batch.mask("x"), batch.weights):
        assert not array.flags.writeable


def test_released_batch_refuses_access_and_a_second_release(table):
    filled(table, 10)
    batch = table.sampler(batch=8).sample()
    batch.release()
    assert batch.released
    for access in (lambda: batch["x"], lambda: batch.keys, batch.names, batch.release,
                   lambda: batch.mask("x")):  # fmt: skip
        with pytest.raises(gear.Stale):
            access()


def test_arrays_keep_their_values_after_release_and_after_the_client(client, table):
    filled(table, 10)
    sampler = table.sampler(batch=8, batches=2, seed=1)
    with sampler.sample() as batch:
        n, x = batch["n"], batch["x"]
        expected = n.copy()
    for _ in range(20):
        sampler.sample().release()
    client.close()
    assert (n == expected).all()
    assert (x[:, 0] == n).all()


def test_batches_that_are_held_run_out_and_come_back(table):
    filled(table, 10)
    sampler = table.sampler(batch=8, batches=2)
    first, second = sampler.sample(), sampler.sample()
    with pytest.raises(gear.Busy):
        sampler.sample()
    view = first["x"][2:]
    first.release()
    with pytest.raises(gear.Busy):
        sampler.sample()
    del view
    gc.collect()
    sampler.sample().release()
    second.release()


def test_unknown_window_is_a_key_error(table):
    filled(table, 3)
    with table.sampler(batch=1).sample() as batch, pytest.raises(KeyError):
        batch["y"]


def test_seeded_samplers_draw_alike(table):
    filled(table, 500)
    draws = [table.sampler(batch=64, seed=9).sample()["n"].tolist() for _ in range(2)]
    assert draws[0] == draws[1]


def test_sampling_an_empty_table_times_out_and_names_the_time(table):
    sampler = table.sampler()
    with pytest.raises(gear.TimedOut):
        sampler.sample(1, timeout=0.0)
    with pytest.raises(TimeoutError, match=r"0\.12 s given"):
        sampler.sample(1, timeout=0.12)


def test_sampler_options_are_checked(table):
    with pytest.raises(gear.NoColumn):
        table.sampler(windows=[gear.Window("y")])
    with pytest.raises(gear.InvalidArgument):
        table.sampler(windows=[gear.Window("x"), gear.Window("x")])
    with pytest.raises(gear.InvalidArgument, match="pad"):
        table.sampler(windows=[gear.Window("x", pad="middle")])
    with pytest.raises(gear.InvalidArgument):
        table.sampler(windows=[gear.Window("x", offset=-500)])
    filled(table, 1)
    with pytest.raises(gear.InvalidArgument):
        table.sampler(batch=4).sample(5)


def test_leased_draws_are_counted(make_table):
    table = make_table(limiter=gear.Limiter.ratio(1.0, 1, 100.0))
    filled(table, 10)
    sampler = table.sampler(batch=4)
    with sampler.sample() as batch:
        assert (batch.times_sampled >= 1).all()
    assert not sampler.stats().direct
    wait_until(lambda: table.stats().samples == 4)
    with pytest.raises(gear.Unsupported):
        table.sampler(mode="direct")


def test_sampler_counts_what_it_drew(table):
    filled(table, 10)
    sampler = table.sampler(batch=4)
    for _ in range(3):
        sampler.sample().release()
    stats = sampler.stats()
    assert (stats.direct, stats.batches, stats.rows) == (True, 3, 12)
    assert stats.bytes > 0
