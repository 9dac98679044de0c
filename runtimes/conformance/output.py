"""What a process writes into a pipe, collected while it runs."""

import fcntl
import os
import select
import struct
import termios
import threading

UNREAD = struct.Struct("i")


class Output:
    """Owns the reading end of a pipe."""

    def __init__(self, fd):
        self.fd, self.written, self.open = fd, bytearray(), True
        os.set_blocking(fd, False)
        self.lock = threading.Lock()
        self.reader = threading.Thread(target=self._collect, daemon=True)
        self.reader.start()

    def _collect(self):
        while self.open:
            select.select([self.fd], [], [])
            with self.lock:
                try:
                    piece = os.read(self.fd, 65536)
                except BlockingIOError:
                    continue
                if not piece:
                    os.close(self.fd)
                    self.open = False
                self.written += piece

    def so_far(self):
        """All that was in the pipe when this was asked, not only what the thread has come to."""
        with self.lock:
            if self.open:
                unread, = UNREAD.unpack(fcntl.ioctl(self.fd, termios.FIONREAD, bytes(UNREAD.size)))
                if unread:
                    self.written += os.read(self.fd, unread)
            return bytes(self.written)

    def ended(self, timeout_s):
        """Whether the last writer has closed the pipe within that time."""
        self.reader.join(timeout_s)
        return not self.reader.is_alive()
