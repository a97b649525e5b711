"""A client of the control protocol without the library: requests byte by byte."""

import os
import socket
import struct

import harness
from harness import assert_equal

ENOTFOUND, EPERM, ECORRUPT = -200, -405, -603


class RawClient:
    """The control protocol by hand."""

    def __init__(self, server):
        status = server.json("status")["server"]
        self.fingerprint = int(status["layout_fingerprint"], 16)
        self.version = status["layout_version"]
        self.path = server.socket
        self.socket = None
        self.session, self.token, self.requests = 0, b"\0" * 16, 0

    def connect(self):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(harness.WAIT_S)
        self.socket.connect(self.path)

    def ask(self, op, body):
        self.requests += 1
        header = struct.pack("<IHHIIiI", 0x52414547, 1, op, self.requests, len(body), 0, 0)
        self.socket.sendall(header + body)
        data, descriptors, _, _ = socket.recv_fds(self.socket, 65536, 4)
        for one in descriptors:
            os.close(one)
        return struct.unpack("<i", data[16:20])[0], data[24:]

    def hello(self, channels=()):
        """The status of a hello with the session that there is; takes the one of the answer."""
        self.connect()
        body = struct.pack("<IIQ64sQ16s", self.version, len(channels), self.fingerprint, b"raw",
                           self.session, self.token)
        status, answer = self.ask(1, body + struct.pack(f"<{len(channels)}I", *channels))
        if status == 0:
            _, _, _, self.session, self.token = struct.unpack("<QIIQ16s", answer)
        return status

    def open_writer(self, table):
        status, answer = self.ask(9, struct.pack("<QIIII", table, 1, 0, 0, 0))
        assert_equal(status, 0)
        return struct.unpack("<I", answer[:4])[0]
