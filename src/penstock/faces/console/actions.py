"""The log of actions: who has done what, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.edge.http import Response
from penstock.edge.router import Route
from penstock.errors import InvalidRequest
from penstock.faces.console.bodies import view
from penstock.faces.console.console import Console
from penstock.faces.console.forms import Form
from penstock.faces.console.gate import Needs, On
from penstock.faces.console.spans import place, read_name, read_span
from penstock.faces.console.visit import Visit, route
from penstock.model import Action, ActionFilter, ActionKind
from penstock.pending import Pending, resolved

PAGE: Final = "/console/actions"
_FIELDS: Final = ("queue", "key", "what", "since", "until")
_ROWS: Final = 50
_KINDS: Final = tuple(kind.value for kind in ActionKind)


def action_log_routes(console: Console) -> list[Route]:
    pages = _ActionPages(console)
    # As the native API has it: it names queues, keys and their rules.
    return [route(console, "GET", PAGE, pages.list, Needs("admin", On.EVERY_QUEUE))]


class _ActionPages:
    def __init__(self, console: Console) -> None:
        self._broker = console.broker

    def list(self, visit: Visit) -> Pending[Response]:
        asked = visit.query
        given = {name: asked[name] for name in _FIELDS if asked.get(name, "").strip()}
        form = Form({name: [value] for name, value in given.items()})
        since, until = read_span(form, visit.now)
        what = form.read("what", _kind) if "what" in given else None
        wanted = ActionFilter(read_name(form, "queue"), read_name(form, "key"), what, since, until)
        before = place(asked.get("before"))

        def page(found: Sequence[Action], status: int = 200) -> Response:
            shown = found[:_ROWS]
            return visit.show(
                "actions.html",
                live="actions_live.html",
                status=status,
                form=form,
                given=given,
                kinds=_KINDS,
                lines=[(action, _detail(action)) for action in shown],
                before=before,
                older=shown[-1].number if len(found) > _ROWS else None,
            )

        if form.errors:
            return resolved(page([], 422))
        return self._broker.actions.list(before, _ROWS + 1, wanted).map(page)


def _kind(text: str) -> ActionKind:
    if text not in _KINDS:
        raise InvalidRequest(f"this is one of {', '.join(_KINDS)}")
    return ActionKind(text)


def _detail(action: Action) -> str:
    """As JSON, set in, where it is some."""
    return "" if action.detail is None else view(action.detail.encode("utf-8", "replace"), None).text
