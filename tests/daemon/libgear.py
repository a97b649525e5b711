"""A writer or a consumer of a table, through libgear.so and ctypes: what gearctl has no command for. Standard library only.

The structs repeat gear.h; the library refuses a struct_size that it does not know.
"""

import ctypes
import os
from ctypes import byref, c_char_p, c_double, c_int64, c_size_t, c_uint16, c_uint32, c_uint64, c_void_p

import harness

F32 = 12
ETIMEDOUT = -500
EDROPPED = -203
DIRECT, LEASED = 1, 2


class Cell(ctypes.Structure):
    _fields_ = [("column", c_uint32), ("dtype", c_uint16), ("rank", c_uint16),
                ("element_bytes", c_uint32), ("reserved", c_uint32), ("data", c_void_p),
                ("shape", c_void_p), ("strides", c_void_p), ("step_stride", c_int64)]


class SamplerOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("mode", c_uint32), ("batch_rows_max", c_uint32),
                ("batches_max", c_uint32), ("windows", c_void_p), ("window_count", c_uint32),
                ("anchor", c_uint32), ("seed", c_uint64), ("prefetch", c_uint32),
                ("rows_min", c_uint32), ("beta", c_double), ("normalise", c_uint32),
                ("reserved", c_uint32), ("selector", c_char_p), ("group", c_char_p),
                ("group_from", c_uint32), ("unique", c_uint32), ("order", c_uint32),
                ("rank", c_uint32), ("world", c_uint32), ("version_policy", c_uint32),
                ("version_lag", c_uint64), ("background", c_uint32), ("background_rows", c_uint32)]


def skip_unless_loadable():
    if os.environ.get("GEAR_SANITIZE"):
        raise harness.Skip("a library with a sanitizer cannot be loaded into this python")


class Peer:
    """One table of one client. A call that fails raises, with the status and the library's text."""

    def __init__(self, endpoint, table):
        skip_unless_loadable()
        self.library = ctypes.CDLL(os.path.join(harness.BUILD, "libgear.so"))
        self.library.gear_last_error.restype = c_char_p
        self.client, self.table = c_void_p(), c_void_p()
        self.call("gear_connect", endpoint.encode(), None, byref(self.client))
        self.call("gear_table_open", self.client, table.encode(), byref(self.table))

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.call("gear_close", self.client)

    def status(self, name, *arguments):
        return getattr(self.library, name)(*arguments)

    def call(self, name, *arguments):
        code = self.status(name, *arguments)
        assert code == 0, (name, code, self.library.gear_last_error())

    def writer(self):
        writer = c_void_p()
        self.call("gear_writer_open", self.table, None, byref(writer))
        return writer

    def append(self, writer, value, timeout_s):
        """One step of a table whose one column is a scalar f32; the status."""
        data = ctypes.c_float(value)
        cell = Cell(column=0, dtype=F32, data=ctypes.cast(ctypes.pointer(data), c_void_p))
        return self.status("gear_writer_append", writer, c_uint32(0), byref(cell), c_size_t(1),
                           c_int64(int(timeout_s * 1e9)))

    def flush(self, writer, timeout_s):
        return self.status("gear_writer_flush", writer, c_int64(int(timeout_s * 1e9)), None)

    def consumer(self, group):
        options = SamplerOptions(struct_size=ctypes.sizeof(SamplerOptions), mode=LEASED,
                                 group=group.encode())
        sampler = c_void_p()
        self.call("gear_sampler_open", self.table, byref(options), byref(sampler))
        return sampler

    def sampler(self, mode):
        options = SamplerOptions(struct_size=ctypes.sizeof(SamplerOptions), mode=mode)
        sampler = c_void_p()
        self.call("gear_sampler_open", self.table, byref(options), byref(sampler))
        return sampler

    def sample(self, sampler, rows):
        batch = c_void_p()
        self.call("gear_sample", sampler, c_uint32(rows), c_int64(int(harness.WAIT_S * 1e9)),
                  byref(batch))
        return batch

    def sample_status(self, sampler, rows, timeout_s):
        return self.status("gear_sample", sampler, c_uint32(rows), c_int64(int(timeout_s * 1e9)), byref(c_void_p()))

    def release(self, batch):
        self.call("gear_batch_release", batch)
