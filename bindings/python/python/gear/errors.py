"""Exceptions: a class for each family of gear_status, and for statuses programs tell apart."""

from __future__ import annotations

from gear import _gear


class Error(Exception):
    """Base of all. `status` is the gear_status (negative), `name` its name, as "GEAR_ETIMEDOUT".

    `accepted`, where a call appends several steps, is how many of them were stored all the same.
    A call that raised had otherwise no effect.
    """

    status: int = 0
    accepted: int | None = None

    @property
    def name(self) -> str:
        return _gear.status_name(self.status)


class InvalidArgument(Error, ValueError):
    """1xx: an argument is wrong; the caller can mend it."""


class DtypeError(InvalidArgument, TypeError):
    """EDTYPE: the dtype is not the column's. GEAR never casts."""


class ShapeError(InvalidArgument):
    """ESHAPE: rank or shape is not the column's, or leading axes differ."""


class NoColumn(InvalidArgument, LookupError):
    """ENOCOLUMN: the table has no such column."""


class StateError(Error):
    """2xx: the thing is not in the state the call needs. Itself: ESTATE, and closed handles."""


class NotFound(StateError, LookupError):
    """ENOTFOUND: no such table."""


class Exists(StateError):
    """EEXISTS: a table of that name exists already."""


class Closed(StateError):
    """ECLOSED: the table was closed for everyone."""


class Dropped(StateError):
    """EDROPPED: the table was dropped."""


class Stale(StateError):
    """ESTALE: a released batch, or a lease that had expired."""


class Busy(StateError):
    """EBUSY: every batch of the sampler is held; release one, and let go of its arrays."""


class EpochOver(StateError):
    """EEPOCH: this rank had all its rows of the epoch; Sampler.begin_epoch begins another."""


class ResourceError(Error):
    """3xx: something ran out. Itself: file descriptors, limits, locked memory."""


class NoMemory(ResourceError, MemoryError):
    """ENOMEM: memory of this process or of the server."""


class NoSpace(ResourceError):
    """ENOSPC: shared memory, or blocks of a table with nothing left to evict."""


class ServerError(Error, ConnectionError):
    """4xx: the server cannot be reached, or is not one we can talk to."""


class NoServer(ServerError):
    """ENOSERVER, ENOTSOCKET, ESTALESOCKET: nothing serves this endpoint."""


class Disconnected(ServerError):
    """EDISCONNECTED: the server went away during the call."""


class VersionMismatch(ServerError):
    """EVERSION: protocol or layout differ; the text names both."""


class NotPermitted(ServerError):
    """EPERM: not permitted."""


class TimedOut(Error, TimeoutError):
    """ETIMEDOUT: the time given ran out."""


class Unsupported(Error):
    """EUNSUPPORTED: not in this build, on this kernel, or not in this version."""


class SystemFailure(Error):
    """ESYSTEM, EINTERNAL, ECORRUPT: an unexpected system error, or a broken invariant of GEAR itself."""


_OF_STATUS: dict[int, type[Error]] = {
    -104: NoColumn,
    -105: DtypeError,
    -106: ShapeError,
    -200: NotFound,
    -201: Exists,
    -202: Closed,
    -203: Dropped,
    -204: Stale,
    -206: Busy,
    -207: EpochOver,
    -300: NoMemory,
    -301: NoSpace,
    -400: NoServer,
    -401: NoServer,
    -402: NoServer,
    -403: VersionMismatch,
    -405: NotPermitted,
    -406: Disconnected,
    -600: Unsupported,
}
_OF_FAMILY: dict[int, type[Error]] = {
    1: InvalidArgument,
    2: StateError,
    3: ResourceError,
    4: ServerError,
    5: TimedOut,
    6: SystemFailure,
}


def error_of(status: int, text: str) -> Error:
    """The exception of a gear_status, with the library's text."""
    kind = _OF_STATUS.get(status) or _OF_FAMILY.get(-status // 100, Error)
    error = kind(text or _gear.status_name(status))
    error.status = status
    return error


_gear.set_error_factory(error_of)
