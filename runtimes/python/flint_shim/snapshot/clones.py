"""Receives CLONE frames with their descriptors by recvmsg; `readv`, which the link uses, would discard them."""

import _socket
import struct

from ..frame import CLONE, HEADER, ProtocolError
from ..link import PeerGone

_DESCRIPTORS = struct.Struct("4i")
_PRIME = 1
_LENGTH = HEADER.size + 1
_SPACE = _socket.CMSG_SPACE(_DESCRIPTORS.size)


class CloneRequests:
    def __init__(self, link):
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, link.fd)

    def next(self):
        """The next request: its number, its flags, and the descriptors of link, stdout, stderr and /tmp."""
        data, descriptors = b"", ()
        while len(data) < _LENGTH:
            try:
                piece, ancillary, flags, _ = self._socket.recvmsg(_LENGTH - len(data), _SPACE, _socket.MSG_CMSG_CLOEXEC)
            except ConnectionResetError:
                raise PeerGone from None
            if not piece:
                raise PeerGone
            data += piece
            for level, kind, content in ancillary:
                if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
                    if flags & _socket.MSG_CTRUNC or descriptors or len(content) != _DESCRIPTORS.size:
                        raise ProtocolError("order", "CLONE takes exactly four descriptors in one message")
                    descriptors = _DESCRIPTORS.unpack(content)
            length, kind, bits, reserved, call = HEADER.unpack_from(data.ljust(_LENGTH))
            if len(data) >= HEADER.size and (kind != CLONE or length != 1 or bits or reserved or not call):
                raise ProtocolError("order", f"a frame of kind {kind} with {length} bytes came to a frozen process")
        if not descriptors:
            raise ProtocolError("order", "CLONE came without descriptors")
        if data[-1] > _PRIME:
            raise ProtocolError("reserved", "a reserved bit of CLONE's flags is set")
        return call, data[-1], descriptors

    def forget(self):
        """In a clone: gives up the socket object without closing its descriptor, whose number the clone reuses for its own link."""
        self._socket.detach()
