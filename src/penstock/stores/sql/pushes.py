"""Messages that get their numbers first and are stored later, so that their ids are known before they are."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.model import Dedup, Numbered, Reservation
from penstock.stores.sql.arrivals import ArrivalVerbs


class PushVerbs(ArrivalVerbs):
    def reserve(self, count: int) -> Reservation:
        """Numbers that nobody else gets. Those that are never used leave a gap, which harms nobody."""
        return Reservation(self.session.origin, list(self.session.engine.next_seqs(count)))

    def push(self, queue: str, messages: Sequence[Numbered], now: int, again: bool = False) -> None:
        """Store messages under the numbers they have. Raises QueueNotFound.

        `again` says that an earlier attempt may have succeeded: what is there or was there is then not stored twice. A
        queue that keeps no ledger does not know what was there. Where the queue has `Dedup.SEND`, twins are left out.
        """
        found = self.session.queue(queue)
        if again:
            known = self._known([message.seq for message in messages])
            messages = [message for message in messages if message.seq not in known]
        if not messages:
            return
        if found.settings.dedup is Dedup.SEND:
            self.session.take_turn(found.number)
            for message in messages:
                self.send_unless_twin(found, message.draft, now, (message.seq, message.sent_at))
            return
        seqs = [message.seq for message in messages]
        instants = [message.sent_at for message in messages]
        self.store_messages(found, seqs, instants, [message.draft for message in messages], now)

    def _known(self, seqs: Sequence[int]) -> set[int]:
        engine = self.session.engine
        listed = engine.listed(seqs)
        rows = engine.rows(
            f"""SELECT seq FROM message WHERE {engine.among("seq")}
                UNION SELECT seq FROM ledger WHERE {engine.among("seq")}""",
            (listed, listed),
        )
        return {seq for (seq,) in rows}
