"""What a connection has read of the notes in `doomed`: see there."""

from __future__ import annotations

from collections.abc import Collection, Iterable


class KnownDoomed:
    """Of one queue."""

    __slots__ = ("_by_age", "left", "passed", "seqs")

    def __init__(self) -> None:
        # The numbers, each with its note; and of each note, how many are left.
        self.seqs: dict[int, int] = {}
        self.left: dict[int, int] = {}
        # All that are ready up to this number are doomed.
        self.passed = 0
        # The oldest last; None when it has to be put in order again.
        self._by_age: list[int] | None = None

    def keep_only(self, notes: Collection[int]) -> None:
        if not self.left.keys() <= set(notes):
            self.left = {note: self.left[note] for note in notes if note in self.left}
            self.seqs = {seq: note for seq, note in self.seqs.items() if note in self.left}
            self.passed = 0

    def add(self, note: int, seqs: Collection[int]) -> None:
        self.seqs.update(dict.fromkeys(seqs, note))
        self.left[note] = len(seqs)
        self._by_age = None

    def strike(self, seqs: Iterable[int]) -> list[int]:
        """Forget these. Returns the notes of which nothing is left, and forgets them as well."""
        for seq in seqs:
            note = self.seqs.pop(seq, None)
            if note is not None:
                self.left[note] -= 1
        done = [note for note, left in self.left.items() if not left]
        for note in done:
            del self.left[note]
        return done

    def oldest(self, limit: int) -> list[int]:
        """They are handed out once."""
        if self._by_age is None:
            self._by_age = sorted(self.seqs, reverse=True)
        found: list[int] = []
        while self._by_age and len(found) < limit:
            seq = self._by_age.pop()
            if seq in self.seqs:
                found.append(seq)
        return found
