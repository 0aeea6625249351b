"""Sending by hand: one message, lines of JSON, or a file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from secrets import token_urlsafe
from typing import Final

import msgspec

from penstock import limits
from penstock.edge.http import Response
from penstock.edge.router import Route
from penstock.errors import CallerError, InvalidRequest, SendConflict, TryAgain
from penstock.faces.console.bodies import is_json_type, why_no_json
from penstock.faces.console.console import Console
from penstock.faces.console.drafts import read_draft, read_lines
from penstock.faces.console.forms import Form
from penstock.faces.console.gate import Needs
from penstock.faces.console.messages import messages_path, queue_crumbs
from penstock.faces.console.rendering import segment
from penstock.faces.console.visit import Visit, route
from penstock.faces.native.send import BULK, SendMessage, draft_of
from penstock.model import ActionKind, Draft, QueueReport, SentOnce
from penstock.pending import Pending, chained, resolved

SEND: Final = "/console/queues/{queue}/send"
WAYS: Final = {"one": "One message", "lines": "Lines of JSON", "file": "A file"}
_LINES_ARE: Final = {
    "body": "the body of a message, in JSON",
    "message": "a message as the native API takes it, with a body and perhaps attributes",
}
_FILE_IS: Final = {**_LINES_ARE, "whole": "one body, with the whole file in it"}
# Sends of the native API, one after the other.
_MOST: Final = 10 * limits.SEND_LIMIT
_KEY = re.compile(r"[A-Za-z0-9_-]{16,64}")


def sending_routes(console: Console) -> list[Route]:
    sending = _Sending(console)
    post = Needs("post")
    return [
        route(console, "GET", SEND, sending.ask, post),
        route(console, "POST", SEND, sending.send, post, BULK),
    ]


class _Sending:
    def __init__(self, console: Console) -> None:
        self._broker = console.broker

    def ask(self, visit: Visit) -> Pending[Response]:
        return self._page(visit)

    def send(self, visit: Visit) -> Pending[Response]:
        """All that the form has, or nothing where something is wrong with it. The key in the form makes a send that is
        repeated store nothing twice."""
        [queue], form = visit.params, visit.form
        once = form.text("once")
        if _KEY.fullmatch(once) is None:
            raise InvalidRequest("the form has lost its key: load the page again")
        drafts = _drafts(form)
        if drafts is None:
            return self._page(visit, 422)

        def told(sent: SentOnce | None) -> Pending[Response]:
            if sent is None:
                return self._page(visit, 503 if "again" in form.errors.get("", "") else 422)
            there = messages_path(queue) if visit.may("poll", queue) else f"/console/queues/{segment(queue)}/send"
            answer = visit.done(_words(sent), there)
            if sent.repeated:
                return resolved(answer)
            recorded = self._broker.actions.record(visit.actor, ActionKind.MESSAGES_SEND, queue, sent.stored)
            return recorded.map(lambda _none: answer)

        def refused(error: Exception) -> None:
            if isinstance(error, SendConflict):
                form.refuse("", "this form was sent before with something else in it; press Send to send this as well")
                form.texts = {**form.texts, "once": [token_urlsafe(16)]}
            elif isinstance(error, TryAgain):
                form.refuse("", f"{error}; send it again, and what was stored already is not stored twice")
            elif isinstance(error, InvalidRequest):
                form.refuse("", str(error))
            else:
                raise error

        batches = [drafts[start : start + limits.SEND_LIMIT] for start in range(0, len(drafts), limits.SEND_LIMIT)]
        sent = self._in_batches(queue, batches, f"console/{once}", 0, SentOnce(0, 0, True))
        return chained(sent.map(_whole, refused), told)

    def _in_batches(
        self, queue: str, batches: Sequence[Sequence[Draft]], key: str, index: int, so_far: SentOnce
    ) -> Pending[SentOnce]:
        """One after the other. `repeated` says of the whole that nothing of it is new."""
        if index == len(batches):
            return resolved(so_far)
        batch = batches[index]
        digest = blake2b(msgspec.msgpack.encode(batch), digest_size=16).digest()

        def go_on(sent: SentOnce) -> Pending[SentOnce]:
            count, stored = so_far.count + sent.count, so_far.stored + sent.stored
            now = SentOnce(count, stored, so_far.repeated and sent.repeated)
            return self._in_batches(queue, batches, key, index + 1, now)

        return chained(self._broker.send_once(queue, batch, f"{key}/{index}", digest), go_on)

    def _page(self, visit: Visit, status: int = 200) -> Pending[Response]:
        [queue] = visit.params
        way = visit.form.text("way") or visit.query.get("way", "")
        once = visit.form.text("once") or token_urlsafe(16)

        def page(report: QueueReport) -> Response:
            return visit.show(
                "send.html",
                status=status,
                queue=queue,
                crumbs=queue_crumbs(visit, queue, ("Send", None)),
                path=f"/console/queues/{segment(queue)}/send",
                report=report,
                way=way if way in WAYS else "one",
                ways=WAYS,
                lines_are=_LINES_ARE,
                file_is=_FILE_IS,
                once=once,
                most=_MOST,
                longest=BULK.limit,
            )

        return self._broker.describe_queue(queue).map(page)


def _drafts(form: Form) -> list[Draft] | None:
    """What the form wants to be sent; None where something is wrong, which is noted with its field."""
    way, each = form.text("way"), form.text("each")
    if way == "one":
        draft = read_draft(form)
        return None if draft is None else [draft]
    if way == "lines":
        return form.read("lines", lambda text: read_lines(text.encode(), _known(each, _LINES_ARE), _MOST))
    if way != "file":
        raise InvalidRequest(f"choose how to send: {', '.join(WAYS)}")
    upload = form.uploads.get("file")
    if upload is None:
        form.refuse("file", "choose a file")
        return None
    kind = form.text("content_type").strip() or None
    try:
        if _known(each, _FILE_IS) == "whole":
            return [_whole_file(upload.body, kind)]
        return read_lines(upload.body, each, _MOST)
    except CallerError as error:
        form.refuse("file", str(error))
        return None


def _known(each: str, known: dict[str, str]) -> str:
    if each not in known:
        raise InvalidRequest("say what each line is")
    return each


def _whole_file(body: bytes, content_type: str | None) -> Draft:
    draft = draft_of(SendMessage(body="", content_type=content_type))
    if len(body) > limits.BODY_BYTES:
        raise InvalidRequest(f"a message is at most {limits.BODY_BYTES} bytes long, and the file has {len(body)}")
    why = why_no_json(body) if is_json_type(content_type) else None
    if why is not None:
        raise InvalidRequest(f"the content type says JSON, and this is not JSON: {why}")
    return msgspec.structs.replace(draft, body=body)


def _whole(sent: SentOnce) -> SentOnce | None:
    return sent


def _words(sent: SentOnce) -> str:
    if sent.repeated:
        return "This was sent before: nothing was stored a second time."
    twins = sent.count - sent.stored
    words = f"Sent {sent.stored:,} {'message' if sent.stored == 1 else 'messages'}"
    return words + (f"; {twins:,} not stored, as twins of others." if twins else ".")
