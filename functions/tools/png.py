"""Reads PNG pictures of 8 bits a channel, not interlaced, without a palette: enough to look at what a function made."""

import struct
import zlib

CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}


class Picture:
    def __init__(self, width, height, channels, rows):
        self.width, self.height, self.channels, self.rows = width, height, channels, rows


def read(data):
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        raise SystemExit("this is not a PNG picture")
    at, packed, head = 8, b"", None
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            head = struct.unpack(">IIBBBBB", body)
        elif kind == b"IDAT":
            packed += body
        at += 12 + length
    width, height, depth, colour, _, _, interlaced = head
    if depth != 8 or colour not in CHANNELS or interlaced:
        raise SystemExit(f"depth {depth}, colour type {colour}, interlacing {interlaced} are not understood here")
    channels = CHANNELS[colour]
    return Picture(width, height, channels, unfiltered(zlib.decompress(packed), width * channels, height, channels))


def unfiltered(data, length, height, step):
    rows, above = [], bytes(length)
    for y in range(height):
        start = y * (length + 1)
        kind, row = data[start], bytearray(data[start + 1 : start + 1 + length])
        for x in range(length):
            left = row[x - step] if x >= step else 0
            if kind == 1:
                row[x] = (row[x] + left) & 255
            elif kind == 2:
                row[x] = (row[x] + above[x]) & 255
            elif kind == 3:
                row[x] = (row[x] + (left + above[x]) // 2) & 255
            elif kind == 4:
                row[x] = (row[x] + paeth(left, above[x], above[x - step] if x >= step else 0)) & 255
        rows.append(bytes(row))
        above = rows[-1]
    return rows


def paeth(left, up, corner):
    guess = left + up - corner
    return min((left, up, corner), key=lambda value: abs(guess - value))


def grid(picture, cells):
    """The mean of each channel in each of cells x cells parts."""
    means = []
    for row in range(cells):
        rows = picture.rows[row * picture.height // cells : (row + 1) * picture.height // cells]
        for column in range(cells):
            first, last = column * picture.width // cells, (column + 1) * picture.width // cells
            count = len(rows) * (last - first)
            means.append([
                sum(sum(line[first * picture.channels + c : last * picture.channels : picture.channels]) for line in rows) / count
                for c in range(picture.channels)
            ])
    return means
