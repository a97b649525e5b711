"""Connections and tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType

import numpy as np
import numpy.typing as npt

from gear import _gear
from gear._gear import Sampler, Writer
from gear.info import ItemsResult, ServerInfo, TableInfo, TableStats
from gear.options import (
    ANCHORS,
    AUTORESETS,
    ISOLATIONS,
    ITEMS,
    MEMORIES,
    MODES,
    NORMALISES,
    ORDERS,
    SELECTORS,
    STATES,
    WANTS,
    Anchor,
    Autoreset,
    Column,
    ColumnLike,
    Isolation,
    Items,
    Limiter,
    Memory,
    Mode,
    Normalise,
    Order,
    Selector,
    Want,
    Window,
    code,
    pack_columns,
)

TIMEOUT = 30.0  # seconds, where a call is not given another


def connect(
    endpoint: str | None = None,
    name: str | None = None,
    *,
    connect_timeout: float = 5.0,
    request_timeout: float = TIMEOUT,
    reconnect_timeout: float | None = None,
) -> Client:
    """Connects to a server. Blocks up to `connect_timeout` seconds.

    endpoint: None ($GEAR_ENDPOINT, else the user's default socket), "unix:/path", "embedded:" (a
        new server, run by a thread of this process), "embedded:name" (the same, shared by all who
        name it here) or "handle:..." (the server that made this table handle).
    name: shown by `gearctl status`; default the program's.
    request_timeout: seconds, the bound of calls without a timeout of their own.
    reconnect_timeout: seconds that the client goes on looking for a geard that was killed and is
        started again (default 60); 0: it does not.

    A client may be used by several threads. It is not to be used after fork(): connect again there.
    Errors: NoServer, NotPermitted, VersionMismatch, ResourceError, TimedOut, InvalidArgument.
    """
    return Client(_gear.connect(endpoint, name, connect_timeout, request_timeout, reconnect_timeout))


class Client:
    """A connection, made by `connect`. As a context manager it closes itself."""

    def __init__(self, raw: _gear.Client) -> None:
        self._raw = raw

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def create_table(
        self,
        name: str,
        columns: Mapping[str, ColumnLike],
        capacity_items: int,
        *,
        items: Items = "step",
        item_length: int = 0,
        item_period: int = 0,
        short_episodes: bool = True,
        sampler: Selector = "default",
        remover: Selector = "default",
        priority_alpha: float | None = None,
        priority_epsilon: float = 0.0,
        max_times_sampled: int = 0,
        limiter: Limiter | None = None,
        capacity_steps: int = 0,
        episode_steps_max: int = 0,
        lanes_max: int = 0,
        block_steps: int = 0,
        window_before_max: int = 0,
        window_after_max: int = 0,
        memory: Memory = "default",
        huge_pages: Want = "no",
        populate: Want = "no",
        lock: Want = "no",
        numa_node: int = -1,
        lease_timeout: float = 0.0,
        top_k: int = 0,
        half_life: float = 0.0,
        table_weights: bool = False,
        capacity_bytes: int = 0,
        mode: int = 0,
        payload_isolation: Isolation = "none",
        writers_max: int = 0,
    ) -> Table:
        """Creates a table and opens it; a number left at 0 takes its default.

        columns: by name, a `Column`, (dtype, shape) or a dtype for one number a step. At least one
            must be per step.
        capacity_items: the remover makes room beyond.
        items: "step": every step is an item; "episode": every episode; "sequence": runs of
            `item_length` steps, one every `item_period`; "explicit": `Writer.item` makes them.
        short_episodes: "sequence": an episode shorter than item_length gives one short item.
        sampler: "uniform" (default), "fifo", "lifo", "prioritized", "max_heap", "min_heap", "top_k" (uniform
            over the `top_k` largest priorities) or "recency" (preference halves every `half_life`
            insertions). remover: "fifo" (default) or another but the last two.
        priority_alpha: P(i) is proportional to (p_i + priority_epsilon) ** alpha; default 0.6.
        max_times_sampled: the draw that reaches it removes the item; 0 is without limit.
        limiter: default `Limiter.at_least(1)`.
        capacity_steps: stored at the least; "episode" and "explicit" tables need it or
            episode_steps_max.
        lanes_max: lanes open at one time (default 64). window_before_max, window_after_max: how far
            windows reach beyond an item (default 16 steps).
        lease_timeout: seconds a leased batch may be held (default 60).
        table_weights: keeps what samplers with normalise="table" need.
        capacity_bytes: of the items' steps together; the remover makes room beyond.
        mode: permission bits as of a file, for a geard with `--access any`; default 0o600.
        payload_isolation: "per_writer": a writer can store into its own part of the table's memory
            alone; at most `writers_max` writers (default 8, at most 32) are open at one time.

        Memory is allocated before the call returns: shortage is NoSpace here, never a fault later.
        Blocks up to the client's request_timeout. Errors: InvalidArgument, Exists, NoSpace,
        NoMemory, ResourceError, Unsupported.
        """
        # gear.h: alpha 0 is spelt -1, since 0 asks for the default.
        alpha = 0.0 if priority_alpha is None else (-1.0 if priority_alpha == 0 else priority_alpha)
        fields = {
            "capacity_items": capacity_items,
            "item_policy": code(ITEMS, items, "items"),
            "item_length": item_length,
            "item_period": item_period,
            "short_episodes": 0 if short_episodes else 1,
            "sampler": code(SELECTORS, sampler, "sampler"),
            "remover": code(SELECTORS, remover, "remover"),
            "priority_alpha": alpha,
            "priority_epsilon": priority_epsilon,
            "max_times_sampled": max_times_sampled,
            "capacity_steps": capacity_steps,
            "episode_steps_max": episode_steps_max,
            "lanes_max": lanes_max,
            "block_steps": block_steps,
            "window_before_max": window_before_max,
            "window_after_max": window_after_max,
            "memory": code(MEMORIES, memory, "memory"),
            "huge_pages": code(WANTS, huge_pages, "huge_pages"),
            "populate": code(WANTS, populate, "populate"),
            "lock": code(WANTS, lock, "lock"),
            "numa_node": numa_node,
            "lease_timeout_ms": round(lease_timeout * 1e3),
            "top_k": top_k,
            "half_life": half_life,
            "table_weights": int(table_weights),
            "capacity_bytes": capacity_bytes,
            "mode": mode,
            "payload_isolation": code(ISOLATIONS, payload_isolation, "payload_isolation"),
            "writers_max": writers_max,
        }
        packed = limiter.packed() if limiter else None
        return Table(
            _gear.create_table(self._raw, name, pack_columns(columns), packed, None, fields)
        )

    def create_queue(
        self,
        name: str,
        columns: Mapping[str, ColumnLike],
        capacity: int,
        *,
        lanes_max: int = 0,
        block_steps: int = 0,
        memory: Memory = "default",
    ) -> Table:
        """Creates a bounded FIFO queue of steps: every one is drawn once, in order; at most
        `capacity` wait, and the next insertion blocks. Errors as `create_table`."""
        fields = {
            "capacity_items": capacity,
            "lanes_max": lanes_max,
            "block_steps": block_steps,
            "memory": code(MEMORIES, memory, "memory"),
        }
        return Table(
            _gear.create_table(self._raw, name, pack_columns(columns), None, capacity, fields)
        )

    def open_table(self, name: str) -> Table:
        """Opens a table of this server by name. Errors: NotFound, NotPermitted, VersionMismatch."""
        return Table(_gear.open_table(self._raw, name))

    def attach(self, handle: str) -> Table:
        """Opens the table named by a handle. Errors: InvalidArgument (EHANDLE), NotFound."""
        return Table(_gear.attach_table(self._raw, handle))

    def tables(self) -> list[str]:
        """Names of the server's tables, in order of creation."""
        return self._raw.tables()

    def drop(self, name: str) -> None:
        """Removes a table: waiters and later calls of those who have it open raise Dropped; its
        memory returns to the system when the last of them detaches. Errors: NotFound."""
        self._raw.drop(name)

    def server(self) -> ServerInfo:
        """The server's own account of itself."""
        return ServerInfo(**self._raw.server())

    def close(self) -> None:
        """Closes the client and all tables, writers and samplers opened through it; open episodes
        end as truncated. Batches that are held stay valid. While arrays of `Writer.reserve` are
        alive the connection itself lasts until the last of them is gone. Closing twice is fine.
        Errors: StateError when another thread is inside a call."""
        self._raw.close()

    @property
    def closed(self) -> bool:
        return self._raw.closed


class Table:
    """A table, from `Client.create_table`, `open_table` or `attach`. Several threads may use it."""

    def __init__(self, raw: _gear.Table) -> None:
        self._raw = raw

    @property
    def handle(self) -> str:
        """64 printable characters with which another process attaches. A secret: who holds it and
        may reach the server may read and write."""
        return self._raw.handle()

    def describe(self) -> TableInfo:
        """What does not change about the table; read from shared memory."""
        raw = self._raw.describe()
        columns = {name: Column.unpacked(*rest) for name, rest in self._raw.columns().items()}
        names = {
            "items": ITEMS,
            "sampler": SELECTORS,
            "remover": SELECTORS,
            "memory": MEMORIES,
            "payload_isolation": ISOLATIONS,
        }
        coded = {field: known[raw[field]] for field, known in names.items()}
        return TableInfo(
            **{**raw, **coded, "limiter": Limiter(*raw["limiter"]), "columns": columns}
        )

    def stats(self) -> TableStats:
        """Counters of the table; read from shared memory."""
        raw = self._raw.stats()
        return TableStats(**{**raw, "state": STATES[raw["state"]]})

    def writer(
        self,
        lanes: int = 1,
        *,
        names: Iterable[int] | None = None,
        take_over: bool = False,
        autoreset: Autoreset = "disabled",
    ) -> Writer:
        """Opens a writer with `lanes` streams of steps of its own, one per environment.

        names: one a lane, that outlive the writer; a name is open once in a table. take_over: a
        name that is open elsewhere changes hands: its episode ends as truncated, and its former
        writer is told (Stale).
        autoreset: the style of the vector environment whose steps `Writer.append_vector` gets.

        Errors: ResourceError (lanes_max, or a name that is open), InvalidArgument, Closed, Dropped.
        """
        given = None if names is None else [int(name) for name in names]
        return Writer(
            self._raw, lanes, given, take_over, code(AUTORESETS, autoreset, "autoreset")
        )

    def sampler(
        self,
        batch: int = 256,
        windows: Iterable[Window] = (),
        *,
        mode: Mode = "auto",
        anchor: Anchor = "auto",
        seed: int = 0,
        batches: int = 4,
        prefetch: int = 0,
        rows_min: int = 0,
        beta: float = 0.0,
        normalise: Normalise = "batch",
        order: Order = "selector",
        rank: int = 0,
        world: int = 1,
    ) -> Sampler:
        """Opens a sampler.

        batch: rows of `sample()`, and the most it takes. windows: none is every column, at the
        drawn step for step items, else the item's own steps.
        mode: "direct": this process draws from the shared index; "leased": the server draws, counts
        and pins; "auto": direct where the table allows it.
        anchor: which step of an item is the drawn step t.
        seed: 0 is from the system. The same seed over an unchanged table gives the same draws.
        batches: held at one time. prefetch: leased, items drawn ahead; batches * batch + prefetch is at most 65536.
        rows_min: when the timeout ends, a batch of at least so many rows is handed out.
        beta: weights are (N * P(i)) ** -beta, divided by the batch's largest unless
        normalise="none". 0 makes all of them 1.
        order: "epoch": without replacement over a table that does not change, each item (or each
        step of each, with anchor="every_step") once an epoch, in an order that follows from seed
        and epoch, split among `world` readers of which this is `rank`.

        Errors: NoColumn, InvalidArgument, Unsupported (direct, where the table does not allow it).
        """
        return Sampler(
            self._raw,
            [window.packed() for window in windows],
            batch_rows_max=batch,
            batches_max=batches,
            mode=code(MODES, mode, "mode"),
            anchor=code(ANCHORS, anchor, "anchor"),
            seed=seed,
            prefetch=prefetch,
            rows_min=rows_min,
            beta=beta,
            normalise=code(NORMALISES, normalise, "normalise"),
            order=code(ORDERS, order, "order"),
            rank=rank,
            world=world,
        )

    def update_priorities(
        self,
        keys: npt.NDArray[np.uint64],
        priorities: npt.NDArray[np.float64] | npt.NDArray[np.float32],
        timeout: float = TIMEOUT,
    ) -> ItemsResult:
        """Sets raw priorities of items, [n] uint64 and [n] float64 or float32. A key given twice
        takes the last. Blocks until the table's index has them. On TimedOut a part may be applied.
        """
        return ItemsResult(*self._raw.update_priorities(keys, priorities, timeout))

    def delete(self, keys: npt.NDArray[np.uint64], timeout: float = TIMEOUT) -> ItemsResult:
        """Deletes items, [n] uint64. Blocks until they are gone."""
        return ItemsResult(*self._raw.delete(keys, timeout))

    def close(self) -> None:
        """Closes the table for everyone: waiting and later appends and draws raise Closed."""
        self._raw.close()

    def reset(self) -> None:
        """Empties the table; every key and lease from before is stale, open episodes are lost."""
        self._raw.reset()

    def detach(self) -> None:
        """Gives this handle back; the table itself stays. Errors: StateError while its writers or
        samplers are open. Happens by itself when the last reference goes."""
        self._raw.detach()
