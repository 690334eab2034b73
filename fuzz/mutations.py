"""Changed copies of seeds: the same seed number and place in the row always give the same bytes."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

__all__ = ["mutated"]

_WORDS = (
    b"nan", b"inf", b"-inf", b"1e400", b"-1e-400", b"5e-324", b"0x1p3", b"1_0", b"+-1", b"1,5",
    b"1.234,5", b"9" * 20, b"-" + b"9" * 40, b"0" * 12 + b"7", b"1" * 5000, b"\xc2\xb2",
    b"\xd9\xa3", b"\xef\xbb\xbf", b"\xff\xfe", b"\x00", b"\x1f", b"\x1e", b"\r", b"\r\n", b"\n\n",
    b"\x0b", b"\x0c", b"\xe2\x80\xa8", b"\xc2\x85", b"\xc2\xa0", b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80", b'"', b'""', b'"""', b"'", b"\\", b"\\'", b",", b";", b"\t", b"|", b" ",
    b":", b"#", b"%", b"{", b"}", b"{}", b"[", b"]", b"?", b"NA", b"null", b"None", b"true",
    b"False", b"2020-02-30", b"31.12.1999", b"10000-01-01", b"qid:1", b"0:0", b"1:", b":1",
    b"2147483648:1", b"4294967297:1", b"@data", b"@attribute", b"@relation", b"numeric",
    b"{a,'b c',\"d\"}", b"relational", b"date 'yyyy'", b"{0 1}", b"{00000000009 1}", b'{"a":1}',
    b'{"a":[1,{"b":2}]}', b"[" * 200, b'{"a":' * 50, b"1e", b".", b"-", b"+", b"e5", b"--",
    b"a" * 300,
)  # fmt: skip
_NUMBER = re.compile(rb"[0-9]+")
_KINDS = 14


def mutated(seeds: Sequence[bytes], number: int, salt: str, free: int = 0) -> bytes:
    """Input ``number`` of a campaign; the first ``free`` bytes are a choice of options."""
    rng = random.Random(f"{salt} {number}")
    data = bytearray(rng.choice(seeds))
    for k in range(min(free, len(data))):
        if rng.random() < 0.7:
            data[k] = rng.randrange(256)
    front, body = bytes(data[:free]), bytes(data[free:])
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5, 12))):
        body = _changed(rng, body, seeds, free)
    return front + body[: 1 << 16]


def _changed(rng: random.Random, body: bytes, seeds: Sequence[bytes], free: int) -> bytes:
    kind = rng.randrange(_KINDS)
    at = rng.randrange(len(body) + 1)
    if kind < 3:
        return _bytes(rng, body, kind, at)
    if kind < 6:
        return _lines(rng, body, kind)
    if kind < 9:
        return body[:at] + rng.choice(_WORDS) + body[at + rng.choice((0, 0, 1, 3)) :]
    if kind == 9:
        return _other_number(rng, body)
    length = rng.choice((1, 2, 4, 16, 64, 300))
    if kind == 10:
        return body[:at] + body[at + length :]
    if kind == 11:
        return body[:at] + body[at : at + length] * rng.choice((2, 2, 3, 40)) + body[at + length :]
    other = rng.choice(seeds)[free:]
    if kind == 12:
        start = rng.randrange(len(other) + 1)
        return body[:at] + other[start:]
    return body[:at]


def _bytes(rng: random.Random, body: bytes, kind: int, at: int) -> bytes:
    data = bytearray(body or b"x")
    at = min(at, len(data) - 1)
    if kind == 0:
        data[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        data[at] = rng.choice((0, 1, 10, 13, 32, 34, 44, 127, 128, 255, rng.randrange(256)))
    else:
        piece = rng.choice((1, 2, 4, 8))
        value = rng.choice((0, 1, -1, 2**31, 2**31 - 1, 2**62, -(2**63), rng.getrandbits(63)))
        data[at : at + piece] = (value % 2 ** (8 * piece)).to_bytes(
            piece, rng.choice(("little", "big"))
        )
    return bytes(data)


def _lines(rng: random.Random, body: bytes, kind: int) -> bytes:
    lines = body.split(b"\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    if kind == 3:
        lines[at : at + 1] = [lines[at]] * rng.choice((0, 2, 3, 30))
    elif kind == 4:
        lines[at], lines[other] = lines[other], lines[at]
    else:
        sign = rng.choice((b",", b" ", b"\t", b";", b":"))
        fields = lines[at].split(sign)
        place = rng.randrange(len(fields))
        fields[place : place + 1] = rng.choice(([], [rng.choice(_WORDS)], [fields[place]] * 2))
        lines[at] = sign.join(fields)
    return b"\n".join(lines)


def _other_number(rng: random.Random, body: bytes) -> bytes:
    found = list(_NUMBER.finditer(body))
    if not found:
        return body
    match = rng.choice(found)
    value = rng.choice(
        (b"0", b"1", b"00", b"2", b"1e9", b"18446744073709551616", b"65536", b"1e308")
    )
    return body[: match.start()] + value + body[match.end() :]
