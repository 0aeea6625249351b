"""The settings of a queue in a form: what a new queue has, and how those of a queue are changed.

A form carries what it has shown. Only what somebody has typed over is changed, so that two people with the same page
open do not undo each other's work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock import limits, names, policy
from penstock.durations import duration, duration_within
from penstock.edge.http import Response
from penstock.edge.router import BodyRule, Route
from penstock.errors import (
    CallerError,
    DeadLetterQueueNotFound,
    InvalidRequest,
    NotPermitted,
    QueueExists,
    QueueNotFound,
)
from penstock.faces.answers import encode_json
from penstock.faces.bodies import decoder
from penstock.faces.console.console import Console
from penstock.faces.console.forms import Form, whole_number
from penstock.faces.console.gate import SIGNED_IN, Needs
from penstock.faces.console.rendering import segment
from penstock.faces.console.visit import Visit, route
from penstock.faces.native.settings import SettingsChange, change_from, settings_view
from penstock.keys import check_dead_letters
from penstock.model import Queue, QueueChange, Settings
from penstock.pending import Pending, chained, resolved

NEW: Final = "/console/new-queue"
# As many labels as there may be, twice: as they were shown, and as they are now.
_BODY: Final = BodyRule(1024 * 1024)
# What a form showed stands beside each field, under its name behind this.
_WAS: Final = "was-"
_LONGEST_TEXT: Final = 100
_FIELDS: Final = (
    *("visibility", "retention", "delay", "dedup", "dedup_window", "dedup_scope", "dead_letter_queue"),
    *("max_receives", "backoff_first", "backoff_most", "ledger", "labels", "groups"),
)
_read_change = decoder(SettingsChange)
Asked = dict[str, Any]


def settings_routes(console: Console) -> list[Route]:
    pages = _Settings(console)
    settings, admin = "/console/queues/{queue}/settings", Needs("admin")
    return [
        route(console, "GET", NEW, pages.ask, SIGNED_IN),
        route(console, "POST", NEW, pages.create, SIGNED_IN, _BODY),
        route(console, "GET", settings, pages.show, admin),
        route(console, "POST", settings, pages.change, admin, _BODY),
    ]


class _Settings:
    def __init__(self, console: Console) -> None:
        self._broker = console.broker

    def ask(self, visit: Visit) -> Response:
        visit.form = Form({field: [text] for field, text in written(Settings()).items()})
        return _new(visit)

    def create(self, visit: Visit) -> Response | Pending[Response]:
        name = visit.form.read("name", lambda text: names.check_with_space(text.strip()))
        if name is not None:
            visit.require("admin", name)
        change = read_change(visit.form, written(Settings()))
        if name is None or change is None:
            return _new(visit, 422)
        try:
            settings = policy.changed(Settings(), change)
            check_dead_letters(visit.visitor.rules, settings.redrive)
        except CallerError as error:
            _refuse(visit.form, error)
            return _new(visit, 422)

        def created(queue: Queue) -> Response:
            return visit.done(f"The queue {queue.name} is made.", place_of(queue.name))

        def failed(error: Exception) -> Response:
            _refuse(visit.form, error)
            return _new(visit, 422)

        return self._broker.create_queue(name, settings, visit.actor).map(created, failed)

    def show(self, visit: Visit) -> Pending[Response]:
        def page(queue: Queue) -> Response:
            visit.form = Form({field: [text] for field, text in written(queue.settings).items()})
            return _page(visit, queue, 200)

        return self._find(visit).map(page)

    def change(self, visit: Visit) -> Pending[Response]:
        form = visit.form
        change = read_change(form, {field: form.text(_WAS + field) for field in _FIELDS if form.has(_WAS + field)})
        if change is None:
            return self._find(visit).map(lambda queue: _page(visit, queue, 422))
        [name] = visit.params
        place = place_of(name)
        if change == QueueChange():
            return self._find(visit).map(lambda _queue: visit.done("Nothing was changed.", place))

        def changed(_queue: Queue) -> Response:
            return visit.done(f"The settings of {name} are changed.", place)

        def failed(error: Exception) -> None:
            _refuse(form, error)

        def answer(response: Response | None) -> Pending[Response]:
            if response is not None:
                return resolved(response)
            return self._find(visit).map(lambda queue: _page(visit, queue, 422))

        updated = self._broker.update_queue(name, change, visit.visitor.rules, visit.actor)
        return chained(updated.map(changed, failed), answer)

    def _find(self, visit: Visit) -> Pending[Queue]:
        [name] = visit.params

        def first(found: list[Queue | None]) -> Queue:
            if found[0] is None:
                raise QueueNotFound(name)
            return found[0]

        return self._broker.find_queues([name]).map(first)


def place_of(queue: str) -> str:
    return f"/console/queues/{segment(queue)}"


def may_create(visit: Visit) -> bool:
    """Whether there is a name under which this visitor may make a queue."""
    rules = visit.visitor.rules
    return rules is None or any(rule.split("|")[1] in ("admin", "*") for rule in rules)


def _new(visit: Visit, status: int = 200) -> Response:
    if not may_create(visit):
        raise NotPermitted("queue|admin|NAME for the queue to be made")
    return visit.show("new_queue.html", status=status, shown=written(Settings()))


def _page(visit: Visit, queue: Queue, status: int) -> Response:
    shown = {field: visit.form.text(_WAS + field, text) for field, text in written(queue.settings).items()}
    foreign = {key: text for key, text in queue.settings.labels.items() if key.startswith(limits.RESERVED_LABELS)}
    return visit.show("settings.html", status=status, queue=queue, shown=shown, foreign=foreign)


def _refuse(form: Form, error: Exception) -> None:
    """What is wrong goes beside the field that it is about. Other errors go on."""
    match error:
        case QueueExists():
            form.refuse("name", str(error))
        case DeadLetterQueueNotFound() | NotPermitted():
            form.refuse("dead_letter_queue", str(error))
        case InvalidRequest():
            form.refuse("", str(error))
        case _:
            raise error


def written(settings: Settings) -> dict[str, str]:
    """Settings as a form shows them."""
    view = settings_view(settings)
    redrive, backoff = view.redrive, view.backoff
    labels = [f"{key}={text}" for key, text in view.labels.items() if not key.startswith(limits.RESERVED_LABELS)]
    return {
        "visibility": duration(view.visibility_ms),
        "retention": duration(view.retention_ms),
        "delay": duration(view.delay_ms),
        "dedup": view.dedup,
        "dedup_window": duration(view.dedup_window_ms),
        "dedup_scope": view.dedup_scope,
        "dead_letter_queue": "" if redrive is None else redrive.dead_letter_queue,
        "max_receives": "" if redrive is None else str(redrive.max_receives),
        "backoff_first": "" if backoff is None else duration(backoff.first_ms),
        "backoff_most": "" if backoff is None else duration(backoff.most_ms),
        "ledger": view.ledger,
        "labels": "\n".join(labels),
        "groups": view.groups,
    }


def read_change(form: Form, was: Mapping[str, str]) -> QueueChange | None:
    """What differs from what was shown, through the checks of the native API; None where a field is wrong, which is
    noted with the field."""
    asked: Asked = {}
    _read_simple(form, was, asked)
    if _differs(form, was, "dead_letter_queue", "max_receives"):
        _read_redrive(form, asked)
    if _differs(form, was, "backoff_first", "backoff_most"):
        _read_backoff(form, asked)
    if _differs(form, was, "labels"):
        former = _labels(was.get("labels", ""))
        asked.update(form.read("labels", lambda text: _checked({"labels": _changed_labels(former, text)})) or {})
    return None if form.errors else change_from(_read_change(encode_json(asked)))


def _read_simple(form: Form, was: Mapping[str, str], asked: Asked) -> None:
    for field, name, read in (
        ("visibility", "visibility_ms", _duration),
        ("retention", "retention_ms", lambda text: _duration(text, 1)),
        ("delay", "delay_ms", _duration),
        ("dedup", "dedup", str),
        ("dedup_window", "dedup_window_ms", _window),
        ("dedup_scope", "dedup_scope", str),
        ("ledger", "ledger", str),
        ("groups", "groups", str),
    ):
        if _differs(form, was, field):
            asked.update(form.read(field, _checking(name, read)) or {})


def _read_redrive(form: Form, asked: Asked) -> None:
    queue, receives = form.text("dead_letter_queue").strip(), form.text("max_receives").strip()
    if not queue and not receives:
        asked["redrive"] = None
    elif not queue:
        form.refuse("dead_letter_queue", "name the queue that messages go to after so many receives")
    else:

        def read(text: str) -> Asked:
            most = whole_number(text, "the number of receives", 1, limits.INT32_MAX)
            return _checked({"redrive": {"max_receives": most, "dead_letter_queue": queue}})

        asked.update(form.read("max_receives", read) or {})


def _read_backoff(form: Form, asked: Asked) -> None:
    if not form.text("backoff_first").strip() and not form.text("backoff_most").strip():
        asked["backoff"] = None
        return
    first = form.read("backoff_first", lambda text: _duration(text, 1))
    if first is not None:

        def read(text: str) -> Asked:
            return _checked({"backoff": {"first_ms": first, "most_ms": _duration(text, first)}})

        asked.update(form.read("backoff_most", read) or {})


def _differs(form: Form, was: Mapping[str, str], *fields: str) -> bool:
    return any(form.has(field) and form.text(field).strip() != was.get(field, "").strip() for field in fields)


def _checking(name: str, read: Callable[[str], Any]) -> Callable[[str], Asked]:
    return lambda text: _checked({name: read(text)})


def _checked(asked: Asked) -> Asked:
    """The same, if the native API would take it. Raises InvalidRequest."""
    change_from(_read_change(encode_json(asked)))
    return asked


def _duration(text: str, least: int = 0, most: int = limits.DURATION_MS) -> int:
    try:
        return duration_within(text.strip()[:_LONGEST_TEXT], least, most)
    except ValueError as error:
        raise InvalidRequest(str(error)) from error


def _window(text: str) -> int:
    return _duration(text, limits.DEDUP_WINDOW_LEAST_MS, limits.DEDUP_WINDOW_MOST_MS)


def _labels(text: str) -> dict[str, str]:
    """Raises InvalidRequest."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if line.strip():
            key, equals, value = line.strip().partition("=")
            if not equals:
                raise InvalidRequest(f"a label is written as key=value, not {key[:_LONGEST_TEXT]!r}")
            found[key.strip()] = value.strip()
    return found


def _changed_labels(former: Mapping[str, str], text: str) -> dict[str, str | None]:
    """What is new or different, and None for what is gone."""
    now = _labels(text)
    changes: dict[str, str | None] = {key: value for key, value in now.items() if former.get(key) != value}
    return changes | {key: None for key in former if key not in now}
