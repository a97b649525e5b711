"""What a writer takes, what it refuses, and that it comes back as it was."""

from __future__ import annotations

import gear
import numpy as np
import pytest
from steps import append_steps, filled, x_of

DTYPES = [
    "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
    "float16", "float32", "float64", "complex64", "V5",
]  # fmt: skip


def only_step(table: gear.Table, name: str = "v") -> np.ndarray:
    with table.sampler(batch=1).sample() as batch:
        return batch[name][0].copy()


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_comes_back_bit_for_bit(make_table, dtype):
    table = make_table({"v": (dtype, (2, 3))})
    raw = np.random.default_rng(7).integers(0, 256, 6 * np.dtype(dtype).itemsize, np.uint8)
    value = (raw % 2 == 1 if dtype == "bool" else raw.view(dtype)).reshape(2, 3)
    table.writer().append(0, v=value)
    got = only_step(table)
    assert got.dtype == np.dtype(dtype)
    assert got.tobytes() == value.tobytes()


def test_bfloat16_takes_bit_patterns(make_table):
    table = make_table({"v": ("bfloat16", (2,))})
    bits = np.array([0x3F80, 0xC000], np.uint16)
    table.writer().append(0, v=bits)
    assert only_step(table).view(np.uint16).tolist() == bits.tolist()
    assert table.describe().columns["v"] == gear.Column("bfloat16", (2,))


def test_bfloat16_is_that_of_ml_dtypes_where_installed(make_table):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    table = make_table({"v": ("bfloat16", (2,)), "s": ml_dtypes.bfloat16})
    value = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    table.writer().append(0, v=value, s=0.25)
    assert only_step(table).dtype == ml_dtypes.bfloat16
    assert only_step(table).tolist() == [1.5, -2.0]
    assert only_step(table, "s") == 0.25


def test_wrong_dtype_raises_and_is_never_cast(table):
    writer = table.writer()
    for wrong in (np.zeros(3, np.float64), np.zeros(3, np.int32), np.zeros(3, ">f4"), [0.0] * 3):
        with pytest.raises(gear.DtypeError, match="x"):
            writer.append(0, x=wrong, n=0)
    with pytest.raises(gear.DtypeError):
        writer.append(0, x=x_of(0), n=np.int32(0))
    with pytest.raises(gear.DtypeError):
        writer.append(0, x=x_of(0), n=1.0)
    writer.flush()
    assert table.stats().steps == 0


def test_python_numbers_take_the_columns_dtype_where_it_holds_their_kind(make_table):
    table = make_table({"b": "bool", "u": "uint8", "f": "float16", "c": "complex64"})
    writer = table.writer()
    writer.append(0, b=True, u=255, f=0.5, c=1)
    writer.flush()
    with table.sampler(batch=1).sample() as batch:
        assert [batch[name][0] for name in "bufc"] == [True, 255, 0.5, 1 + 0j]
    for wrong in ({"b": 1}, {"u": 1.0}, {"u": True}, {"f": 1j}):
        with pytest.raises(gear.DtypeError):
            writer.append(0, {"b": True, "u": 0, "f": 0.0, "c": 0j, **wrong})
    with pytest.raises(OverflowError):
        writer.append(0, b=True, u=256, f=0.5, c=1)


def test_bytes_fill_an_element_exactly(make_table):
    table = make_table({"v": "V4"})
    writer = table.writer()
    writer.append(0, v=b"a\0c\0")
    assert only_step(table).tobytes() == b"a\0c\0"
    with pytest.raises(gear.ShapeError):
        writer.append(0, v=b"abc")
    with pytest.raises(gear.DtypeError):
        writer.append(0, v=np.zeros((), "V5"))


def test_wrong_shape_rank_and_missing_column_are_told_apart(table):
    writer = table.writer()
    with pytest.raises(gear.ShapeError):
        writer.append(0, x=np.zeros(4, np.float32), n=0)
    with pytest.raises(gear.ShapeError):
        writer.append(0, x=np.zeros((1, 3), np.float32), n=0)
    with pytest.raises(gear.InvalidArgument) as missing:
        writer.append(0, x=x_of(0))
    assert missing.value.name == "GEAR_ECOUNT"
    with pytest.raises(gear.NoColumn, match="its columns are x, n"):
        writer.append(0, x=x_of(0), n=0, m=0)
    with pytest.raises(gear.InvalidArgument) as twice:
        writer.append(0, {"x": x_of(0), "n": 0}, n=0)
    assert twice.value.name in ("GEAR_EDUPLICATE", "GEAR_ECOUNT")
    with pytest.raises(gear.InvalidArgument) as lane:
        writer.append(1, x=x_of(0), n=0)
    assert lane.value.name == "GEAR_ELANE"


def test_strided_and_broadcast_arrays_are_stored_by_value(make_table):
    table = make_table({"v": ("int32", (3, 4))})
    whole = np.arange(48, dtype=np.int32).reshape(6, 8)
    writer = table.writer()
    for value in (whole[::2, ::2], whole.T[::2, ::2][:3, :3].repeat(2, 1)[:, :4],
                  np.broadcast_to(np.int32(7), (3, 4)), whole[::-2, ::-2]):  # fmt: skip
        table.reset()
        writer = table.writer()
        writer.append(0, v=value)
        writer.flush()
        assert (only_step(table) == value).all()


def test_objects_with_a_buffer_or_dlpack_are_viewed(make_table):
    class Tensor:
        def __init__(self, array):
            self._array = array

        def __dlpack__(self, **options):
            return self._array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self._array.__dlpack_device__()

    table = make_table({"v": ("uint8", (4,)), "w": ("float32", (2,))})
    table.writer().append(0, v=bytearray(b"abcd"), w=Tensor(np.array([1, 2], np.float32)))
    assert only_step(table).tobytes() == b"abcd"
    assert only_step(table, "w").tolist() == [1, 2]


def test_columns_named_like_parameters_go_by_the_dict(make_table):
    table = make_table({"lane": "int32", "timeout": "int32"})
    table.writer().append(0, {"lane": 3, "timeout": 4})
    assert (only_step(table, "lane"), only_step(table, "timeout")) == (3, 4)


def test_append_many_equals_appends(make_table):
    table = make_table(sampler="fifo")
    n = np.arange(100)
    x = np.stack([x_of(i) for i in range(100)])
    writer = table.writer(lanes=2)
    assert writer.append_many(0, x=x, n=n) == 100
    assert writer.append_many(1, x=np.broadcast_to(x_of(5), (7, 3)), n=np.full(7, 5)) == 7
    assert writer.append_many(0, x=x[:0], n=n[:0]) == 0
    writer.flush()
    assert table.stats().steps == 107
    with table.sampler(batch=256, seed=3, mode="direct").sample(256) as batch:
        assert (batch["x"][:, 0] == batch["n"]).all()
    with pytest.raises(gear.ShapeError, match="leading axis"):
        writer.append_many(0, x=x, n=n[:99])


def test_append_many_tells_how_many_steps_were_stored_when_time_ran_out(client):
    queue = client.create_queue("q", {"n": "int64"}, capacity=10, lanes_max=1, block_steps=4)
    writer = queue.writer()
    with pytest.raises(gear.TimedOut) as caught:
        writer.append_many(0, n=np.arange(10_000), timeout=0.1)
    accepted = caught.value.accepted
    assert accepted is not None and 10 <= accepted < 10_000
    drawn = []
    sampler = queue.sampler(batch=1)
    while len(drawn) < accepted:
        with sampler.sample(timeout=5.0) as batch:
            drawn += batch["n"].tolist()
    assert drawn == list(range(accepted))
    with pytest.raises(gear.TimedOut):
        sampler.sample(timeout=0.0)


def test_append_each_steps_the_lanes_of_its_mask(table):
    writer = table.writer(lanes=3)
    x = np.stack([x_of(i) for i in range(3)])
    n = np.arange(3)
    assert writer.append_each(x=x, n=n) == 3
    assert writer.append_each(x=x, n=n, mask=np.array([True, False, True])) == 2
    writer.flush()
    assert table.stats().steps == 5
    with table.sampler(batch=100, seed=1).sample() as batch:
        assert (batch["x"][:, 0] == batch["n"]).all()
    with pytest.raises(gear.ShapeError, match="3 lanes"):
        writer.append_each(x=x[:2], n=n[:2])
    with pytest.raises(gear.ShapeError, match="mask"):
        writer.append_each(x=x, n=n, mask=np.ones(2, bool))


def test_reserved_places_become_the_step(table):
    writer = table.writer()
    for n in range(50):
        place = writer.reserve(0)
        assert list(place) == ["x", "n"]
        place["x"][...] = x_of(n)
        place["n"][...] = n
        writer.advance(0)
        with pytest.raises(ValueError):
            place["n"][...] = 0
    writer.flush()
    with table.sampler(batch=64, seed=1).sample() as batch:
        assert (batch["x"][:, 0] == batch["n"]).all()
        assert set(batch["n"].tolist()) <= set(range(50))


def test_second_reserve_gives_the_same_arrays(table):
    writer = table.writer()
    first = writer.reserve(0)
    assert writer.reserve(0)["x"] is first["x"]
    with pytest.raises(gear.StateError):
        writer.append(0, x=x_of(0), n=0)
    writer.advance(0)
    with pytest.raises(gear.StateError):
        writer.advance(0)


def test_reserved_arrays_outlive_the_client_that_was_closed():
    client = gear.connect("embedded:")
    table = client.create_table("t", {"x": ("float32", (1000,))}, 10)
    place = table.writer().reserve(0)["x"]
    client.close()
    assert client.closed
    place[...] = 1.0
    assert place.sum() == 1000
    with pytest.raises(gear.StateError, match="closed"):
        table.stats()


def test_episode_cells_appear_in_the_items_of_the_episode(make_table):
    table = make_table(
        {"n": "int64", "tag": gear.Column("int32", (2,), per_episode=True)},
        capacity_items=100, items="episode", episode_steps_max=10,
    )  # fmt: skip
    writer = table.writer()
    for episode in range(3):
        writer.episode_cells(0, tag=np.array([episode, episode], np.int32))
        for n in range(4):
            writer.append(0, n=10 * episode + n)
        writer.end_episode(0, gear.TERMINATED)
    with pytest.raises(gear.InvalidArgument):
        writer.append(0, n=0, tag=np.zeros(2, np.int32))
    writer.flush()
    with table.sampler(batch=16, seed=2).sample() as batch:
        assert batch["n"].shape == (16, 10)
        assert (batch["tag"][:, 0] == batch["n"][:, 0] // 10).all()
        assert (batch.lengths("n") == 4).all()


def test_end_is_one_of_two_words(table):
    writer = filled(table, 1)
    with pytest.raises(gear.InvalidArgument, match="terminated"):
        writer.end_episode(0, "done")
    writer.end_episode(0, gear.TRUNCATED, x=x_of(1))
    with pytest.raises(gear.StateError):
        writer.end_episode(0, gear.TRUNCATED)


def test_explicit_items_are_the_last_steps_of_the_lane(make_table):
    table = make_table(items="explicit", episode_steps_max=100, sampler="prioritized")
    writer = table.writer()
    append_steps(writer, 0, 0, 6)
    writer.item(0, 4, priority=2.0)
    writer.flush()
    with table.sampler(batch=2, windows=[gear.Window("n", length=4)]).sample() as batch:
        assert batch["n"].tolist() == [[2, 3, 4, 5]] * 2
        assert batch.item_lengths.tolist() == [4, 4]
        assert batch.priorities.tolist() == [2.0, 2.0]
    with pytest.raises(gear.InvalidArgument):
        writer.item(0, 7)
    with pytest.raises(gear.InvalidArgument) as caught:
        writer.item(0, 1, priority=float("nan"))
    assert caught.value.name == "GEAR_EPRIORITY"


def test_set_priority_holds_until_changed(make_table):
    table = make_table(sampler="prioritized", priority_alpha=1.0)
    writer = table.writer()
    writer.set_priority(0, 0.0)
    append_steps(writer, 0, 0, 5)
    writer.set_priority(0, 3.0)
    append_steps(writer, 0, 5, 1)
    writer.flush()
    with table.sampler(batch=32).sample() as batch:
        assert set(batch["n"].tolist()) == {5}
    writer.set_priority(0, None)
    append_steps(writer, 0, 6, 1)
    writer.flush()
    with table.sampler(batch=64, seed=5).sample() as batch:
        assert set(batch.priorities.tolist()) == {3.0}
