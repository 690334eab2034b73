"""Small indexed images as text for a page: no library, no file, transparent where nothing is."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

__all__ = ["class_image", "diverging_image", "grey_image", "share_image"]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_LEVELS = 16
_TINT = 80  # of 255

# Seen on white and on near-black alike.
_BLUE, _ORANGE = (0x1F, 0x83, 0xC4), (0xD9, 0x63, 0x0D)


def _chunk(name: bytes, data: bytes) -> bytes:
    body = name + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))


def _encode(index: np.ndarray, palette: np.ndarray) -> str:
    """A data address of the image whose pixels are rows of the (k, 4) palette."""
    height, width = index.shape
    rows = np.zeros((height, width + 1), dtype=np.uint8)  # a leading 0: no filter
    rows[:, 1:] = index
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    file = _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"PLTE", palette[:, :3].tobytes())
    if (palette[:, 3] < 255).any():
        file += _chunk(b"tRNS", palette[:, 3].tobytes())
    file += _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)) + _chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(file).decode("ascii")


def _fading(colour: tuple[int, int, int]) -> np.ndarray:
    """(_LEVELS + 1, 4): the colour from nothing to full."""
    steps = np.linspace(0.0, 1.0, _LEVELS + 1) ** 0.8
    palette = np.empty((_LEVELS + 1, 4), dtype=np.uint8)
    palette[:, :3] = colour
    palette[:, 3] = np.round(255.0 * steps)
    return palette


def diverging_image(values: np.ndarray) -> str:
    """Values in [-1, 1]: orange below zero, blue above, nothing at zero."""
    index = np.round(np.clip(values, -1.0, 1.0) * _LEVELS).astype(np.int64) + _LEVELS
    palette = np.concatenate([_fading(_ORANGE)[:0:-1], _fading(_BLUE)])
    return _encode(index.astype(np.uint8), palette)


def share_image(values: np.ndarray) -> str:
    """Values in [0, 1]: from nothing to blue."""
    index = np.ceil(np.clip(values, 0.0, 1.0) * _LEVELS).astype(np.uint8)
    return _encode(index, _fading(_BLUE))


def class_image(number: np.ndarray, colours: list[str]) -> str:
    """Class numbers as faint tints of their colours (``#rrggbb``)."""
    palette = np.full((len(colours), 4), _TINT, dtype=np.uint8)
    palette[:, :3] = [list(bytes.fromhex(colour[1:])) for colour in colours]
    return _encode(number.astype(np.uint8), palette)


def grey_image(values: np.ndarray) -> str:
    """Values in [0, 1]: dark ink on white paper."""
    index = np.round(np.clip(values, 0.0, 1.0) * _LEVELS).astype(np.uint8)
    shade = np.round(255.0 * (1.0 - np.linspace(0.0, 1.0, _LEVELS + 1))).astype(np.uint8)
    palette = np.stack([shade, shade, shade, np.full_like(shade, 255)], axis=1)
    return _encode(index, palette)
