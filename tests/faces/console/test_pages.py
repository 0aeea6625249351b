"""What every page, file and form of the console has in common."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape, unescape
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

import penstock.faces.console
from penstock.faces.console.assets import assets
from tests.faces.console.conftest import Person
from tests.servers import ThreadServer
from tests.talk import Reply
from tests.waiting import wait_until

FOLDER = Path(penstock.faces.console.__file__).parent
TEMPLATES = sorted((FOLDER / "templates").glob("*.html"))
PAGES = [
    "/console",
    "/console/ledger",
    "/console/ledger/failures",
    "/console/actions",
    "/console/keys",
    "/console/new-queue",
]
HOSTILE = ["<script>alert(1)</script>", "\"'><img src=x onerror=alert(1)>", "{{ 7*7 }}", "\u202egnp.exe", "a\x00b"]


@pytest.mark.parametrize("path", [*PAGES, "/console/nothing"])
def test_a_page_is_under_a_strict_policy_and_kept_nowhere(person: Person, path: str) -> None:
    reply = person.get(path)
    policy = dict(part.strip().partition(" ")[::2] for part in reply.headers["Content-Security-Policy"].split(";"))
    assert policy == {
        "default-src": "'none'",
        **dict.fromkeys(["script-src", "style-src", "img-src", "connect-src", "form-action"], "'self'"),
        **dict.fromkeys(["base-uri", "frame-ancestors"], "'none'"),
    }
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert reply.headers["Referrer-Policy"] == "same-origin"
    assert reply.headers["Cache-Control"] == "no-store"
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert reply.body.startswith(b"<!doctype html>")


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_template_needs_an_exception_of_the_policy(template: Path) -> None:
    text = template.read_text()
    assert not re.search(r"<[^>]*\sstyle\s*=", text), "an inline style"
    assert not re.search(r"<[^>]*\son[a-z]+\s*=", text), "an inline handler"
    assert "hx-on" not in text
    assert not re.search(r"\bjs:|javascript:", text), "what would be evaluated"
    assert not re.search(r"hx-trigger=\"[^\"]*\[", text), "a condition, which would be evaluated"
    assert "<style" not in text
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text)), "an inline script"
    assert "|safe" not in text.replace(" ", "")
    assert not re.search(r"(?:src|href|action)=\"(?:https?:)?//", text), "something from elsewhere"


@pytest.mark.parametrize("path", PAGES)
def test_a_head_is_answered_like_a_get_without_its_body(person: Person, path: str) -> None:
    whole, head = person.get(path), person.head(path)
    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Type"] == whole.headers["Content-Type"]


def test_the_live_part_is_a_part_of_the_page(server: ThreadServer, person: Person) -> None:
    with server.talk() as talk:
        talk("PUT", "/v1/queues/orders", {})
    whole, part = person.get(), person.get(hx_request="true")
    assert b"<html" in whole.body
    assert b"<html" not in part.body
    assert b"orders" in part.body


def test_what_is_not_there_has_a_page_too(person: Person) -> None:
    reply = person.get("/console/nothing/at/all?<script>")
    assert reply.status == 404
    assert b"Not found" in reply.body
    assert b"<script>" not in reply.body.replace(b"<script src", b"")
    assert person.get("/console/").status == 308


def test_what_the_edge_refuses_has_a_page_too(person: Person) -> None:
    person.get()
    too_large = person.post("/console/keys", {"rules": "x" * 100_000})
    assert (too_large.status, b"Too large" in too_large.body) == (413, True)
    wrong_way = person.get("/console/sign-out")
    assert (wrong_way.status, wrong_way.headers["Allow"]) == (405, "POST")
    for reply in (too_large, wrong_way):
        assert reply.body.startswith(b"<!doctype html>")
        assert reply.headers["Cache-Control"] == "no-store"


def test_queues_are_filtered_sorted_and_paged(server: ThreadServer, person: Person) -> None:
    with server.talk() as talk:
        for number in range(120):
            talk("PUT", f"/v1/queues/q{number:03}", {})
        talk("POST", "/messages/q007", "x")

    def names(query: str) -> list[str]:
        return re.findall(r'class="name"><a[^>]*>([^<]*)<', person.get(f"/console?{query}").body.decode())

    # A queue that was counted just before the send is shown so for up to a second.
    wait_until(lambda: names("")[0] == "q007")
    # Those with the oldest ready message come first, then the others by name.
    assert names("") == ["q007", *(f"q{number:03}" for number in range(100) if number != 7)]
    assert names("sort=name") == [f"q{number:03}" for number in range(100)]
    assert names("page=2") == [f"q{number:03}" for number in range(100, 120)]
    assert names("page=99") == names("page=2")
    assert names("sort=ready&order=falling")[0] == "q007"
    assert names("sort=ready")[0] == "q007"
    assert names("sort=oldest&order=falling")[0] == "q007"
    assert "q007" not in names("sort=oldest&order=rising")
    assert names("filter=Q01&sort=name&order=falling") == [f"q{number:03}" for number in range(19, 9, -1)]
    assert names("filter=none-of-them") == []
    # What makes no sense is passed over.
    for query in ("page=-1", "page=x", "page=" + "9" * 50, "sort=__class__", "order=%00", "page=%C2%B2"):
        assert names(query) == names(""), query


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_words_are_shown_and_never_run(person: Person, text: str) -> None:
    for query in (f"filter={quote(text)}", f"sort={quote(text)}"):
        body = person.get(f"/console?{query}").body.decode()
        assert "<script>alert" not in body
        assert "<img src=x" not in body
        assert "49" not in re.findall(r'value="([^"]*)"', body)
    for field in ("key", "action", "queue"):
        body = person.get(f"/console/keys?key=k&action=post&queue=q&{field}={quote(text)}").body.decode()
        assert "<script>alert" not in body
        assert "<img src=x" not in body


class TestKeys:
    def test_a_key_is_made_and_its_secret_shown_once(self, server: ThreadServer, person: Person) -> None:
        person.get("/console/keys")
        assert person.post("/console/keys", {"name": "boss", "rules": "queue|*|*"}).status == 200
        reply = person.post("/console/keys", {"name": "shop", "rules": "queue|post|orders-*\r\n\r\n queue|*|x \r\n"})
        assert reply.status == 200
        [secret] = re.findall(r"psk_[\w-]+", reply.body.decode())
        assert reply.headers["Cache-Control"] == "no-store"
        with server.talk() as talk:
            bearer = {"authorization": f"Bearer {secret}"}
            assert talk("GET", "/v1/queues/x", **bearer).status == 404
            assert talk("GET", "/v1/queues/y", **bearer).status == 403
        assert secret not in person.get("/console/keys").body.decode()

    def test_who_makes_the_first_key_goes_on_with_it(
        self, server: ThreadServer, person: Person, people: Callable[[ThreadServer], Person]
    ) -> None:
        assert b"queue|*|*</textarea>" in person.get("/console/keys").body, "what the first key needs is there"
        before = dict(person.cookies)
        reply = person.post("/console/keys", {"name": "boss", "rules": "queue|*|*"})
        page = reply.body.decode()
        [secret] = re.findall(r"psk_[\w-]+", page)
        assert "You are signed in with it now" in page
        assert "Sign out" in page
        assert person.cookies != before, "another session than before"
        # The token of the page is good for what comes next.
        assert person.post("/console/keys", {"name": "next", "rules": "queue|post|*"}).status == 200
        assert person.get("/console/keys").status == 200
        stranger = people(server)
        stranger.cookies = before
        assert stranger.get("/console/keys").status == 303, "everybody else needs a key"
        stranger.sign_in(secret)
        entries = server.in_unit(lambda unit: unit.actions.list(None, 10), write=False)
        logged = [(one.key, one.via, one.what.value) for one in entries][::-1]
        assert logged[:3] == [
            (None, "console", "key.create"),
            ("boss", "console", "console.sign-in"),
            ("boss", "console", "key.create"),
        ]

    def test_a_first_key_that_would_lock_everybody_out_has_to_be_meant(
        self, server: ThreadServer, person: Person
    ) -> None:
        person.get("/console/keys")
        fields = {"name": "shop", "rules": "queue|post|*\nqueue|admin|orders"}
        reply = person.post("/console/keys", fields)
        assert reply.status == 422
        assert b"the first key must be able to administer everything" in reply.body
        with server.talk() as talk:
            assert talk("GET", "/v1/keys").json == {"keys": []}
        assert b'name="without_admin"' in reply.body
        reply = person.post("/console/keys", {**fields, "without_admin": "yes"})
        assert reply.status == 200
        assert b"other keys are made with" in reply.body
        assert person.get("/console").status == 200
        assert person.get("/console/keys").status == 403

    def test_rules_are_put_together(self, server: ThreadServer, person: Person) -> None:
        person.get("/console/keys")

        def field(reply: Reply) -> str:
            return re.search(r'name="rules"[^>]*>\n?([^<]*)</textarea>', reply.body.decode())[1]

        helped = {"add": "yes", "name": "shop", "rules": "queue|post|a\r\n\r\n"}
        reply = person.post("/console/keys", {**helped, "rule_action": "poll", "rule_queue": " orders-* "})
        assert (reply.status, field(reply)) == (200, "queue|post|a\nqueue|poll|orders-*")
        assert b'value="shop"' in reply.body
        reply = person.post("/console/keys", {**helped, "rule_action": "post", "rule_queue": "a"})
        assert field(reply) == "queue|post|a", "the same rule is there once"
        for action, queue in (("poll", "a b"), ("poll", ""), ("fly", "x"), ("poll", "<script>"), ("", "x")):
            reply = person.post("/console/keys", {**helped, "rule_action": action, "rule_queue": queue})
            assert reply.status == 422
            assert b'id="field-rule_queue-error"' in reply.body
            assert b"<script>" not in reply.body.replace(b"<script src", b"")
        with server.talk() as talk:
            assert talk("GET", "/v1/keys").json == {"keys": []}

    def test_may_this_key_do_that(self, person: Person) -> None:
        person.get("/console/keys")
        person.post("/console/keys", {"name": "boss", "rules": "queue|*|*"})
        person.post("/console/keys", {"name": "shop", "rules": "queue|post|orders-*\nqueue|*|x"})

        def verdict(key: str, action: str, queue: str) -> str:
            page = person.get(
                f"/console/keys?{urlencode({'key': key, 'action': action, 'queue': queue})}"
            ).body.decode()
            said = re.search(r'id="verdict"[^>]*>(.*?)</p>', page, re.DOTALL)[1]
            return " ".join(unescape(re.sub(r"<[^>]*>", " ", said)).split())

        yes = "permitted Yes: shop may post on orders-1, permitted by queue|post|orders-*"
        assert verdict("shop", "post", "orders-1") == yes
        assert verdict("shop", "admin", "x").endswith("permitted by queue|*|x")
        assert verdict("shop", "poll", "orders-1") == "not permitted No: no rule of shop is about poll on orders-1."
        assert verdict("shop", "post", "*").startswith("not permitted")
        assert verdict("boss", "admin", "*").endswith("permitted by queue|*|*")
        person.post("/console/keys/shop/revoke", {"confirm": "shop"})
        assert verdict("shop", "post", "orders-1") == "not permitted No: shop was revoked."
        assert "none" in verdict("none", "post", "x")

    def test_the_last_key_that_may_administer_is_revoked_with_a_warning(self, person: Person) -> None:
        person.get("/console/keys")
        person.post("/console/keys", {"name": "boss", "rules": "queue|*|*"})
        assert b"No other key may administer everything" in person.get("/console/keys").body
        person.post("/console/keys", {"name": "deputy", "rules": "queue|admin|*"})
        assert b"No other key may administer everything" not in person.get("/console/keys").body
        reply = person.post("/console/keys/deputy/revoke", {"confirm": "boss"})
        assert reply.status == 422
        assert b"to revoke a key, type its name" in reply.body

    @pytest.mark.parametrize("name", ["", "a b", "ä", "x" * 101, *HOSTILE])
    def test_a_name_that_is_none_is_refused_by_its_field(self, person: Person, name: str) -> None:
        person.get("/console/keys")
        reply = person.post("/console/keys", {"name": name, "rules": "queue|*|*"})
        body = reply.body.decode()
        assert reply.status == 422
        assert re.search(r'id="field-name-error"[^>]*>the name of an API key is', body)
        assert "<script>alert" not in body
        assert "<img src=x" not in body
        assert escape("queue|*|*") in body, "what was right is kept"

    @pytest.mark.parametrize("rules", ["", "queue|*", "queue|fly|*", "queue|*|a b", "\n".join(["queue|*|*"] * 101)])
    def test_so_are_rules(self, person: Person, rules: str) -> None:
        person.get("/console/keys")
        reply = person.post("/console/keys", {"name": "k", "rules": rules})
        assert reply.status == 422
        assert 'id="field-rules-error"' in reply.body.decode()

    def test_hostile_rules_are_shown_as_they_are(self, person: Person) -> None:
        person.get("/console/keys")
        reply = person.post("/console/keys", {"name": "k", "rules": "queue|<script>alert(1)</script>|*"})
        assert reply.status == 422
        assert b"<script>alert" not in reply.body
        assert b"&lt;script&gt;alert" in reply.body


class TestForms:
    """Whatever comes by POST."""

    @pytest.mark.parametrize(
        ("body", "kind"),
        [
            (b"{}", "application/json"),
            (b"name=k", "text/plain"),
            (b"&".join(b"a%d=1" % n for n in range(300)), "application/x-www-form-urlencoded"),
            (b"name=%ff%fe", "application/x-www-form-urlencoded"),
            (b"--x\r\n\r\nno name\r\n--x--\r\n", "multipart/form-data; boundary=x"),
            (b"--x\r\n", "multipart/form-data; boundary=x"),
            (b"--x\r\n", "multipart/form-data"),
            (b"--x\r\n", "multipart/form-data; boundary=" + "y" * 100),
        ],
    )
    def test_what_is_not_a_form_is_refused(self, person: Person, body: bytes, kind: str) -> None:
        person.get("/console/keys")
        reply = person.raw("/console/keys", body, kind)
        assert reply.status == 400
        assert reply.headers["Content-Type"].startswith("text/html")

    def test_a_form_of_parts_is_read_like_any_other(self, person: Person) -> None:
        person.get("/console/keys")
        fields = {"csrf": person.token, "name": "shop", "rules": "queue|*|*"}
        parts = [
            f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()
        ]
        file = '--x\r\nContent-Disposition: form-data; name="file"; filename=""\r\n\r\n\r\n'
        reply = person.raw(
            "/console/keys", ("".join(parts) + file + "--x--\r\n").encode(), "multipart/form-data; boundary=x"
        )
        assert reply.status == 200
        assert b"psk_" in reply.body

    def test_one_that_is_too_long_is_refused(self, person: Person) -> None:
        person.get("/console/keys")
        assert person.post("/console/keys", {"name": "x" * 100_000}).status == 413


class TestFiles:
    def test_all_are_there_and_kept_for_long(self, person: Person) -> None:
        assert len(assets().names) > 8
        for name in assets().names:
            reply = person.get(assets().address(name))
            assert reply.status == 200
            assert reply.headers["Cache-Control"] == "public, max-age=31536000, immutable"
            assert reply.headers["X-Content-Type-Options"] == "nosniff"
            assert "Set-Cookie" not in reply.headers
            again = person.get(assets().address(name), if_none_match=reply.headers["ETag"])
            assert (again.status, again.body) == (304, b"")
            assert again.headers["ETag"] == reply.headers["ETag"]
            assert person.get(assets().address(name), if_none_match='W/"other", "more"').status == 200
            assert person.head(assets().address(name)).headers["Content-Length"] == str(len(reply.body))

    def test_an_older_version_gets_what_there_is_and_keeps_it_for_now(self, person: Person) -> None:
        reply = person.get("/console/static/0123456789ab/console.css")
        assert (reply.status, reply.headers["Cache-Control"]) == (200, "no-cache")

    @pytest.mark.parametrize(
        "path",
        [
            "/console/static/v/..%2f__init__.py",
            "/console/static/v/%2e%2e%2ftemplates%2fbase.html",
            "/console/static/v/../sessions.py",
            "/console/static/../../keys.py",
            "/console/static/v/nothing.js",
            "/console/static/v/vendor",
            "/console/static/v/",
            "/console/static/v/console.css%00",
        ],
    )
    def test_no_path_leads_elsewhere(self, person: Person, path: str) -> None:
        assert person.get(path).status == 404

    def test_a_licence_lies_beside_every_library(self) -> None:
        libraries = [name for name in assets().names if ".min." in name]
        assert len(libraries) >= 4
        licences = {name.removesuffix(".LICENSE") for name in assets().names if name.endswith(".LICENSE")}
        for name in libraries:
            project, version = re.fullmatch(r"([a-z]+)(?:-ext)?-([\d.]+)\.min\.\w+", name).groups()
            assert f"{project}-{version}" in licences


def test_off_means_off(tmp_path: Path) -> None:
    server = ThreadServer(f"sqlite:///{tmp_path}/penstock.db", console="off")
    with server.talk() as talk:
        reply = talk("GET", "/console")
        assert (reply.status, b"<html" in reply.body) == (404, False)
    server.stop()


def test_a_store_of_folders_has_none(tmp_path: Path) -> None:
    server = ThreadServer(f"mqcore:///{tmp_path}/queues")
    with server.talk() as talk:
        assert talk("GET", "/console").status in (400, 404, 405)
    server.stop()


def test_a_store_that_is_away_has_a_page(server: ThreadServer, person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.errors import StoreUnavailable

    def away(*_args: object, **_named: object) -> None:
        raise StoreUnavailable("the database does not answer")

    person.get()
    monkeypatch.setattr(server.store, "unit", away, raising=False)
    reply = person.get()
    assert reply.status == 503
    assert b"The database does not answer." in reply.body
    assert b"data-retry" in reply.body
    assert reply.headers["Retry-After"] == "5"
    assert b"<html" not in person.get(hx_request="true").body
    assert b"Store away" in person.get("/console/health").body
    monkeypatch.undo()
    assert person.get().status == 200
