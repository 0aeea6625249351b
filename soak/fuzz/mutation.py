"""Inputs made from others, by a seed: for machines without atheris, and for the short form in CI."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

_MOST_STEPS = 6
_BYTES = (0, 1, 10, 13, 32, 34, 37, 44, 58, 92, 127, 128, 255)


class Mutator:
    def __init__(self, random: Random, corpus: Sequence[bytes], words: Sequence[bytes], longest: int) -> None:
        self._random = random
        self._corpus = list(corpus) or [b""]
        self._words = list(words) or [b"\0"]
        self._longest = longest
        self._steps = (self._flip, self._cut, self._repeat, self._insert, self._replace, self._splice, self._number)

    def next(self) -> bytes:
        random = self._random
        data = random.choice(self._corpus)
        for _ in range(random.randint(1, _MOST_STEPS)):
            data = random.choice(self._steps)(data)
        return data[: self._longest]

    def _place(self, data: bytes) -> tuple[int, int]:
        start = self._random.randrange(len(data) + 1)
        return start, min(len(data), start + self._random.choice((0, 1, 1, 2, 4, 8, 40)))

    def _flip(self, data: bytes) -> bytes:
        if not data:
            return bytes([self._random.choice(_BYTES)])
        at = self._random.randrange(len(data))
        byte = self._random.choice((data[at] ^ 1 << self._random.randrange(8), self._random.choice(_BYTES)))
        return data[:at] + bytes([byte]) + data[at + 1 :]

    def _cut(self, data: bytes) -> bytes:
        start, end = self._place(data)
        return data[:start] + data[end:]

    def _repeat(self, data: bytes) -> bytes:
        start, end = self._place(data)
        return data[:end] + data[start:end] * self._random.choice((1, 2, 30)) + data[end:]

    def _insert(self, data: bytes) -> bytes:
        start, _ = self._place(data)
        return data[:start] + self._random.choice(self._words) + data[start:]

    def _replace(self, data: bytes) -> bytes:
        start, end = self._place(data)
        return data[:start] + self._random.choice(self._words) + data[end:]

    def _splice(self, data: bytes) -> bytes:
        other = self._random.choice(self._corpus)
        return data[: self._place(data)[0]] + other[self._place(other)[0] :]

    def _number(self, data: bytes) -> bytes:
        """Another number where there is one."""
        digits = [at for at, byte in enumerate(data) if 48 <= byte <= 57]
        if not digits:
            return self._insert(data)
        at = self._random.choice(digits)
        number = self._random.choice((b"0", b"-1", b"9" * 9, b"9" * 19, b"9" * 400, b"1.5", b"1e309", b"00"))
        return data[:at] + number + data[at + 1 :]
