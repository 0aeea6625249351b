"""Tasks: what is done to all messages that a filter means, in the background, after they were counted.

A task is a move of the broker. The count that goes before it is one too, as a dry run: it holds the filter and what is
to be done, so that confirming it needs nothing that a browser could have changed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from penstock import limits
from penstock.edge.http import Response
from penstock.edge.router import Route
from penstock.errors import InvalidRequest, MoveConflict, MoveNotFound, NotPermitted
from penstock.faces.console.acting import offered_targets, read_target, refusing_target
from penstock.faces.console.console import Console
from penstock.faces.console.filters import MessageFilter
from penstock.faces.console.forms import whole_number
from penstock.faces.console.gate import SIGNED_IN, Needs
from penstock.faces.console.messages import PAGE, may_somewhere, messages_path, queue_crumbs
from penstock.faces.console.rendering import segment
from penstock.faces.console.visit import Visit, route
from penstock.keys import EVERY_QUEUE, needed_rule
from penstock.model import Move, MoveAction, MoveStatus, MoveTerms, QueueReport, Selection
from penstock.pending import Pending, chained, rejected, resolved

TASKS: Final = "/console/tasks"
_ACTIONS: Final = {
    "delete": MoveAction.DELETE,
    "release": MoveAction.RELEASE,
    "move": MoveAction.MOVE,
    "redrive": MoveAction.MOVE,
}


def task_routes(console: Console) -> list[Route]:
    tasks = _Tasks(console)
    poll = Needs("poll")
    return [
        route(console, "GET", f"{PAGE}/all", tasks.choose, poll),
        route(console, "POST", f"{PAGE}/all", tasks.count, poll),
        route(console, "GET", TASKS, tasks.table, SIGNED_IN),
        route(console, "GET", f"{TASKS}/{{task}}", tasks.show, SIGNED_IN),
        route(console, "POST", f"{TASKS}/{{task}}/cancel", tasks.cancel, SIGNED_IN),
        route(console, "POST", f"{TASKS}/{{task}}/run", tasks.run, SIGNED_IN),
    ]


class _Tasks:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._broker = console.broker

    def choose(self, visit: Visit) -> Pending[Response]:
        """What is to become of all that match."""
        return self._choice(visit, MessageFilter(visit.query))

    def count(self, visit: Visit) -> Pending[Response]:
        """Start the dry run."""
        [queue], form = visit.params, visit.form
        asked = MessageFilter({name: values[-1] for name, values in form.texts.items()})
        if asked.is_wrong:
            raise InvalidRequest("the filter is not right: " + "; ".join(asked.form.errors.values()))
        deed = form.text("act")
        if deed not in _ACTIONS:
            form.refuse("act", "choose what is to become of them")
            return self._choice(visit, asked, 422)
        target, is_said = read_target(visit, deed) if _ACTIONS[deed] is MoveAction.MOVE else (None, True)
        if not is_said:
            return self._choice(visit, asked, 422)
        terms = MoveTerms(asked.selection, dry_run=True, as_new=deed == "redrive", action=_ACTIONS[deed])
        started = self._broker.moves.start(
            queue, target, terms, asked.ages, claimed=form.has("claimed"), by=visit.actor
        )

        def answer(move: Move | None) -> Pending[Response]:
            return self._choice(visit, asked, 422) if move is None else resolved(_led_to(visit, move))

        return chained(started.map(_started, refusing_target(visit, target)), answer)

    def _choice(self, visit: Visit, asked: MessageFilter, status: int = 200) -> Pending[Response]:
        [queue] = visit.params
        if asked.is_wrong:
            return rejected(InvalidRequest("the filter is not right: " + "; ".join(asked.form.errors.values())))

        def page(report: QueueReport, targets: list[str]) -> Response:
            return visit.show(
                "act_all.html",
                status=status,
                queue=queue,
                crumbs=queue_crumbs(visit, queue, ("Messages", messages_path(queue)), ("All that match", None)),
                path=messages_path(queue),
                asked=asked,
                report=report,
                targets=targets,
                may_move=bool(targets) or may_somewhere(visit, "post"),
                may_go_home=visit.may("post"),
            )

        def known(report: QueueReport) -> Pending[Response]:
            return offered_targets(visit, self._console).map(lambda targets: page(report, targets))

        return chained(self._broker.describe_queue(queue), known)

    def table(self, visit: Visit) -> Pending[Response]:
        def page(moves: Sequence[Move]) -> Response:
            seen = [_told(visit, move) for move in moves if _may_see(visit, move)]
            return visit.show("tasks.html", live="tasks_live.html", tasks=seen)

        return self._broker.moves.list(limits.LIST_LIMIT).map(page)

    def show(self, visit: Visit) -> Pending[Response]:
        return self._found(visit).map(lambda move: self._page(visit, move))

    def cancel(self, visit: Visit) -> Pending[Response]:
        def cancelled(move: Move) -> Response:
            text = "It had ended already." if move.status is not MoveStatus.CANCELLED else "The task is cancelled."
            return visit.done(text, f"{TASKS}/{move.id}")

        return self._broker.moves.cancel(visit.params[0], visit.visitor.rules, visit.actor).map(cancelled)

    def run(self, visit: Visit) -> Pending[Response]:
        """Do what was counted. What was sent since then stays."""
        return chained(self._found(visit), lambda move: self._run(visit, move))

    def _run(self, visit: Visit, counted: Move) -> Pending[Response]:
        form, terms = visit.form, counted.terms
        if not terms.dry_run:
            raise InvalidRequest("this task was not a count: there is nothing to confirm")
        for action, queue in _needs(counted):
            visit.require(action, queue)
        if terms.action is MoveAction.DELETE and form.text("confirm").strip() != counted.source:
            form.refuse("confirm", "to delete messages, type the name of their queue")
        limit = per_second = None
        if form.text("limit").strip():
            limit = form.read("limit", lambda text: whole_number(text, "it", 1, limits.DURATION_MS))
        if form.text("per_second").strip():
            per_second = form.read("per_second", lambda text: whole_number(text, "it", 1, limits.MOVES_PER_SECOND))
        if form.errors:
            return resolved(self._page(visit, counted, 422))
        meant = replace(
            terms,
            selection=_until(terms.selection, counted.started_at),
            limit=limit,
            per_second=per_second,
            dry_run=False,
        )

        def refused(error: Exception) -> None:
            if not isinstance(error, MoveConflict):
                raise error
            form.refuse("", str(error))

        def answer(move: Move | None) -> Response:
            return self._page(visit, counted, 409) if move is None else _led_to(visit, move)

        started = self._broker.moves.start(
            counted.source, counted.target, meant, claimed=counted.claimed, by=visit.actor
        )
        return started.map(_started, refused).map(answer)

    def _found(self, visit: Visit) -> Pending[Move]:
        [task] = visit.params

        def found(move: Move | None) -> Move:
            if move is None:
                raise MoveNotFound(task[:80])
            if not _may_see(visit, move):
                raise NotPermitted(needed_rule("get_status", move.source))
            return move

        return self._broker.moves.find(task).map(found)

    def _page(self, visit: Visit, move: Move, status: int = 200) -> Response:
        if visit.is_fragment and move.status is not MoveStatus.IN_PROGRESS:
            # The whole page is another one now: it asks what comes next.
            return Response(204, b"", [(b"HX-Refresh", b"true"), (b"Cache-Control", b"no-store")])
        told = _told(visit, move)
        return visit.show("task.html", live="task_live.html", status=status, task=told, move=move)


def _started(move: Move) -> Move | None:
    return move


def _led_to(visit: Visit, move: Move) -> Response:
    text = "Counting what matches." if move.terms.dry_run else "The task has started."
    return visit.done(text, f"{TASKS}/{move.id}")


def _may_see(visit: Visit, move: Move) -> bool:
    return visit.may("get_status", move.source) or visit.may("poll", move.source)


def _needs(move: Move) -> list[tuple[str, str]]:
    """What a key must permit to have this done, by the rules of the native API's moves."""
    needs = [("poll", move.source)]
    if move.terms.action is MoveAction.MOVE:
        needs.append(("post", EVERY_QUEUE if move.target is None else move.target))
    return needs


def _until(selection: Selection, instant: int) -> Selection:
    until = instant if selection.sent_until is None else min(selection.sent_until, instant)
    return replace(selection, sent_until=until)


def _told(visit: Visit, move: Move) -> dict[str, object]:
    """A move in the words of a page."""
    terms = move.terms
    is_move = terms.action is MoveAction.MOVE
    where = f" to {move.target}" if move.target is not None else " back to where they came from"
    done = {MoveAction.MOVE: "moved", MoveAction.DELETE: "deleted", MoveAction.RELEASE: "released"}[terms.action]
    most = move.total if terms.limit is None else min(terms.limit, move.total)
    far = max(move.examined, move.moved) if terms.limit is None else move.moved
    is_over = move.status is not MoveStatus.IN_PROGRESS
    return {
        "id": move.id,
        "move": move,
        "path": f"{TASKS}/{move.id}",
        "words": f"{terms.action.value}{where if is_move else ''}",
        "done_word": done,
        "status": move.status.value.lower().replace("_", " "),
        "kind": {"COMPLETE": "good", "ERROR": "bad", "CANCELLED": "warn"}.get(move.status.value, ""),
        "is_over": is_over,
        "most": max(most, 1),
        "far": max(most, 1) if move.status is MoveStatus.COMPLETE else min(far, most),
        "may_cancel": not is_over and visit.may("poll", move.source),
        "may_run": is_over and terms.dry_run and all(visit.may(action, queue) for action, queue in _needs(move)),
        "filter": _conditions(terms.selection),
        "source_path": f"/console/queues/{segment(move.source)}/messages" if visit.may("poll", move.source) else None,
    }


def _conditions(selection: Selection) -> list[tuple[str, object]]:
    """What a selection asks for, for people; instants as milliseconds under a name that says so."""
    told: list[tuple[str, object]] = []
    if selection.text is not None:
        told.append(("body has", selection.text))
    if selection.json is not None:
        told.append((f"{selection.json.path} is", json.dumps(selection.json.value, ensure_ascii=False)))
    if selection.attribute is not None:
        value = selection.attribute.value
        told.append((f"attribute {selection.attribute.name} is", "anything" if value is None else value))
    words: list[tuple[str, object | None]] = [
        ("state", None if selection.state is None else selection.state.value),
        ("content type", selection.content_type),
        ("receives at least", selection.min_receives),
        ("receives at most", selection.max_receives),
        ("sent since", selection.sent_since),
        ("sent until", selection.sent_until),
    ]
    return told + [(name, value) for name, value in words if value is not None]
