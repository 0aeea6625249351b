"""What is done to messages that were chosen: delete, release, move, redrive, and send again what was edited."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from penstock import limits, names
from penstock.edge.http import Response
from penstock.edge.router import BodyRule, Route
from penstock.errors import InvalidRequest, MessageNotFound, QueueNotFound
from penstock.faces.console.console import Console
from penstock.faces.console.drafts import fields_of, read_draft
from penstock.faces.console.gate import Needs, own_path
from penstock.faces.console.messages import PAGE, messages_path, queue_crumbs, whole_id
from penstock.faces.console.visit import Visit, route
from penstock.keys import EVERY_QUEUE
from penstock.model import Dealing, Found, Queue, Resent
from penstock.pending import Pending, chained, resolved

T = TypeVar("T")

# What can be done, and what it is called when it is done.
DEEDS: Final = {"delete": "Deleted", "release": "Released", "move": "Moved", "redrive": "Redrove"}
_OFFERED_QUEUES: Final = 500
# A body of a message in a form, with its attributes: escaped, each byte may take three.
_EDITED: Final = BodyRule(8 * 1024 * 1024)
_WHY_NOT: Final = {
    Dealing.MISSING: "no longer there",
    Dealing.SHIPPED: "in a shipment, which alone may end it",
    Dealing.HOMELESS: "without a queue to go back to",
}


def acting_routes(console: Console) -> list[Route]:
    acting = _Acting(console)
    poll = Needs("poll")
    return [
        route(console, "POST", f"{PAGE}/act", acting.act, poll),
        route(console, "GET", f"{PAGE}/{{message}}/edit", acting.edit, poll),
        route(console, "POST", f"{PAGE}/{{message}}/edit", acting.resend, poll, _EDITED),
    ]


def offered_targets(visit: Visit, console: Console) -> Pending[list[str]]:
    """Queues that the visitor may send to, to choose from. There may be more."""

    def offered(queues: list[Queue]) -> list[str]:
        return [one.name for one in queues if visit.may("post", one.name) and visit.may("get_status", one.name)]

    return console.broker.page_queues("", "", _OFFERED_QUEUES).map(offered)


def read_target(visit: Visit, deed: str) -> tuple[str | None, bool]:
    """Where messages are to go, None being where they came from, and whether the form says it. Raises NotPermitted, by
    the rules of the native API's moves."""
    if deed == "redrive" and visit.form.text("where", "home") == "home":
        visit.require("post", EVERY_QUEUE)
        return None, True
    target = visit.form.read("target", lambda text: names.check_with_space(text.strip()))
    if target is None:
        return None, False
    if target == visit.params[0]:
        visit.form.refuse("target", "choose another queue than the one they are in")
        return None, False
    visit.require("post", target)
    return target, True


def refusing_target(visit: Visit, target: str | None) -> Callable[[Exception], None]:
    """Notes that the target is not there with its field, and passes everything else on."""

    def refused(error: Exception) -> None:
        if not (isinstance(error, QueueNotFound) and target is not None and error.name == target):
            raise error
        visit.form.refuse("target", str(error))

    return refused


class _Acting:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._broker = console.broker

    def act(self, visit: Visit) -> Pending[Response]:
        """Whatever cannot be taken back, or needs a target, is asked about first: the same form comes again, and says
        that it was confirmed."""
        deed = visit.form.text("act")
        if deed not in DEEDS:
            raise InvalidRequest(f"choose what to do: {', '.join(DEEDS)}")
        chosen = [whole_id(one) for one in dict.fromkeys(visit.form.list("id"))]
        if not 0 < len(chosen) <= limits.NAMED_LIMIT:
            raise InvalidRequest("choose messages first: tick the boxes in front of them")
        if deed != "release" and not visit.form.has("confirmed"):
            return self._ask(visit, deed, chosen)
        if deed in ("move", "redrive"):
            return self._move(visit, deed, chosen)
        [queue], verbs = (
            visit.params,
            {"delete": self._broker.delete_messages, "release": self._broker.release_messages},
        )
        return verbs[deed](queue, chosen, visit.actor).map(lambda dealings: _told(visit, deed, dealings))

    def _move(self, visit: Visit, deed: str, chosen: Sequence[str]) -> Pending[Response]:
        target, is_said = read_target(visit, deed)
        if not is_said:
            return self._ask(visit, deed, chosen, 422)

        def done(dealings: list[Dealing] | None) -> Pending[Response]:
            return self._ask(visit, deed, chosen, 422) if dealings is None else resolved(_told(visit, deed, dealings))

        moved = self._broker.move_messages(visit.params[0], chosen, target, deed == "redrive", visit.actor)
        return chained(moved.map(_whole, refusing_target(visit, target)), done)

    def _ask(self, visit: Visit, deed: str, chosen: Sequence[str], status: int = 200) -> Pending[Response]:
        [queue] = visit.params

        def page(targets: list[str]) -> Response:
            return visit.show(
                "act.html",
                status=status,
                queue=queue,
                crumbs=queue_crumbs(visit, queue, ("Messages", messages_path(queue)), (deed.capitalize(), None)),
                path=messages_path(queue),
                deed=deed,
                chosen=chosen,
                targets=targets,
                may_go_home=visit.may("post"),
                back=_back(visit),
            )

        return offered_targets(visit, self._console).map(page)

    def edit(self, visit: Visit) -> Pending[Response]:
        return self._edit_page(visit)

    def resend(self, visit: Visit) -> Pending[Response]:
        """Send what was edited in the place of the message."""
        queue, message_id = visit.params[0], whole_id(visit.params[1])
        if not visit.form.has("body"):
            raise InvalidRequest("the form is not complete: load the page again")
        target = visit.form.read("target", lambda text: names.check_with_space(text.strip() or queue))
        draft = read_draft(visit.form)
        if draft is None or target is None:
            return self._edit_page(visit, 422)
        visit.require("post", target)

        def done(resent: Resent | None) -> Pending[Response]:
            if resent is not None and resent.dealing is Dealing.DONE and resent.id is not None:
                place = f"{messages_path(target)}/{resent.id}"
                text = f"Sent to {target} as {resent.id}. The one that it replaces is deleted."
                return resolved(visit.done(text, place if visit.may("poll", target) else messages_path(queue)))
            if resent is not None:
                visit.form.refuse("", _WHY_NOT_RESENT.get(resent.dealing, "it cannot be sent again"))
            return self._edit_page(visit, 422)

        rules, by = visit.visitor.rules, visit.actor
        asked = self._broker.resend(queue, message_id, draft, target, rules, by)

        def refused(error: Exception) -> None:
            # Of what the store or the queue refuse, only the one who has written it can change something.
            if not isinstance(error, InvalidRequest):
                refusing_target(visit, target if target != queue else None)(error)
            else:
                visit.form.refuse("", str(error))

        return chained(asked.map(_whole, refused), done)

    def _edit_page(self, visit: Visit, status: int = 200) -> Pending[Response]:
        queue, message_id = visit.params[0], whole_id(visit.params[1])

        def page(found: Found | None, targets: list[str]) -> Response:
            if found is None and not visit.form.has("body"):
                raise MessageNotFound(message_id)
            form = visit.form
            if not form.has("body") and found is not None:
                form = fields_of(found.message)
                came_from = found.message.came_from
                form.texts = {**form.texts, "target": [came_from or queue]}
            return visit.show(
                "message_edit.html",
                status=status,
                queue=queue,
                crumbs=queue_crumbs(
                    visit,
                    queue,
                    ("Messages", messages_path(queue)),
                    (message_id, f"{messages_path(queue)}/{message_id}"),
                    ("Edit", None),
                ),
                path=f"{messages_path(queue)}/{message_id}",
                form=form,
                is_there=found is not None,
                targets=targets,
            )

        def known(found: Found | None) -> Pending[Response]:
            return offered_targets(visit, self._console).map(lambda targets: page(found, targets))

        return chained(self._broker.find_message(queue, message_id), known)


_WHY_NOT_RESENT: Final = {
    Dealing.MISSING: "the message is not in this queue any more: nothing was sent",
    Dealing.SHIPPED: "the message is in a shipment, which alone may end it: nothing was sent",
    Dealing.TWIN: "it was not stored, because a twin of it is in the queue already: the message stays as it was",
}


def _whole(value: T) -> T | None:
    return value


def _back(visit: Visit) -> str:
    back = own_path(visit.form.text("back"))
    return back if back.startswith("/console/queues/") else messages_path(visit.params[0])


def _told(visit: Visit, deed: str, dealings: Sequence[Dealing]) -> Response:
    counted = Counter(dealings)
    done = counted.pop(Dealing.DONE, 0)
    parts = [f"{DEEDS[deed]} {done:,} {'message' if done == 1 else 'messages'}"]
    why = {**_WHY_NOT, Dealing.MISSING: "no longer there, or in a shipment"} if deed == "release" else _WHY_NOT
    parts += [f"{count:,} {'is' if count == 1 else 'are'} {why[dealing]}" for dealing, count in counted.items()]
    return visit.done("; ".join(parts) + ".", _back(visit))
