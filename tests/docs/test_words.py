"""Plain words, one meaning each: what a reader may expect of the pages and of the code."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, name_of, prose_of

# The changelog quotes what was said at the time.
READ = [page for page in PAGES if page.name != "CHANGELOG.md"]
LONGEST_LINE = 100

BANNED = {
    # "There is no timer" is English; "it is no timer" is not.
    r"(?<!there )(?<!here )\b(?:is|are|was|were|be) no (?!longer\b|more\b|less\b|other\b|different\b)": "is not a",
    r"\bwhoever\b": "anyone who, the one that",
    r"\bwhosoever\b": "anyone who",
    r"\bnobody\b": "no one, nothing, no other",
    r"\bhimself\b|\bherself\b": "itself, or leave it out",
    r"\bfor ever\b": "forever",
    r"\banew\b": "again",
    r"\ba truth\b|\btruths\b": "a boolean",
    r"\bin its stead\b": "instead",
    r"\bmisspelt\b": "misspelled",
    r"\bless long ago\b": "more recently",
    r"\bso (?:many|often) (?:at most|or more|or less)\b": "at most this many, at least N times",
    r"\bso many \w+ at most\b": "at most this many …",
}


def without_code(text: str) -> str:
    return re.sub(r"``.*?``|`[^`]*`", "`…`", text, flags=re.DOTALL)


def banned_in(text: str) -> list[str]:
    """Each with some words around it, and what to say instead."""
    flat = re.sub(r"\s+", " ", text)
    return [
        f"…{flat[max(0, match.start() - 40) : match.end() + 30]}… ({better})"
        for phrase, better in BANNED.items()
        for match in re.finditer(phrase, flat, re.IGNORECASE)
    ]


@pytest.mark.parametrize(
    ("text", "is_banned"),
    [
        ("that is no receipt", True),
        ("there is no receipt", False),
        ("it is no longer there", False),
        ("whoever holds it", True),
        ("waits for\never", True),
        ("looks for himself", True),
        ("so many messages at most", True),
        ("`whoever`", False),
    ],
)
def test_the_search_finds_what_it_is_for(text: str, is_banned: bool) -> None:
    assert bool(banned_in(without_code(text))) is is_banned


@pytest.mark.parametrize("page", READ, ids=name_of)
def test_a_page_is_in_plain_words(page: Path) -> None:
    found = banned_in(without_code(prose_of(page)))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_prose_is_wrapped(page: Path) -> None:
    """Tables and lines of one long link cannot be wrapped."""
    long = [line for line in prose_of(page).splitlines() if len(line) > LONGEST_LINE and not line.startswith("|")]
    assert [line for line in long if " " in re.sub(r"\[[^\]]*\]\([^)]*\)|`[^`]*`", "", line.strip(" -"))] == []


# The glossary


def glossary() -> list[str]:
    """The words of the glossary, as they are written in the first column."""
    rows = [line for line in prose_of(DOCS / "glossary.md").splitlines() if line.startswith("| ")]
    return [row.split("|")[1].strip() for row in rows if not row.startswith("| word ")]


def test_the_glossary_has_one_line_for_each_word() -> None:
    words = glossary()
    assert len(words) > 40
    assert len(words) == len(set(words))


WORDS = """
    queue message setting draft send claim receipt ack renew release peek purge move sweep transfer settle shipment
    export consumer ledger tally count face edge broker operation unit lane store engine route watch front committer
    supervisor bridge desk call frame board gauge
"""


@pytest.mark.parametrize("word", WORDS.split())
def test_the_words_of_the_code_are_in_the_glossary(word: str) -> None:
    assert word in glossary()


def test_the_root_holds_what_an_open_project_needs() -> None:
    for name in ("LICENSE", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md"):
        assert (ROOT / name).is_file(), name


# The code

SOURCE = ROOT / "src" / "penstock"
MODULES = sorted(SOURCE.rglob("*.py"))


def prose_in(module: Path) -> str:
    """The comments and texts of a module: what a reader of the code, its errors and its help gets to see."""
    parts: list[str] = []
    with tokenize.open(module) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.COMMENT:
                parts.append(token.string.lstrip("# "))
            elif token.type == tokenize.STRING:
                # Set apart, so that the end of one text and the beginning of the next make no phrase.
                parts.append(f". {token.string} .")
    return " ".join(parts)


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_a_module_is_in_plain_words(module: Path) -> None:
    found = banned_in(without_code(prose_in(module)))
    assert not found, "\n".join(found)


TEMPLATES = sorted(path for kind in ("html", "js", "sql") for path in SOURCE.rglob(f"*.{kind}"))


@pytest.mark.parametrize("template", TEMPLATES, ids=name_of)
def test_a_template_or_a_schema_is_in_plain_words(template: Path) -> None:
    """As a whole: none of these languages has a banned phrase among its own words."""
    found = banned_in(re.sub(r"^\s*(?:--|//)", "", template.read_text(), flags=re.MULTILINE))
    assert not found, "\n".join(found)


# This file has to name the phrases.
TOOLS = sorted(
    path
    for folder in ("tests", "devtools", "bench", "soak")
    for path in (ROOT / folder).rglob("*.py")
    if path != Path(__file__)
)


def remarks_in(module: Path) -> str:
    """The comments and docstrings of a module. Its other texts may be anything: a test needs them."""
    with tokenize.open(module) as file:
        text = file.read()
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT]
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, documented)]
    return " ".join([*comments, *(f". {ast.get_docstring(node) or ''} ." for node in nodes)])


@pytest.mark.parametrize("module", TOOLS, ids=name_of)
def test_a_test_or_a_tool_is_in_plain_words(module: Path) -> None:
    found = banned_in(without_code(remarks_in(module)))
    assert not found, "\n".join(found)


def test_the_makefile_is_in_plain_words() -> None:
    lines = (ROOT / "Makefile").read_text().splitlines()
    found = banned_in(without_code(" ".join(line.lstrip("# ") for line in lines if line.startswith("#"))))
    assert not found, "\n".join(found)


# A noun has one name in every layer it passes: the store's contract, the broker's, and those who keep them. So grepping
# for it shows the whole slice.
NOUNS = {
    "Actions",
    "Consumers",
    "Exports",
    "Figures",
    "Keys",
    "Leases",
    "Ledger",
    "Messages",
    "Moves",
    "Queues",
    "Receipts",
    "Shipments",
}
# Called the same on purpose.
PERMITTED = {
    "Session": "the memory store is built like the SQL store, part by part",
    "Share": "the same",
    "Dialect": "how a database writes a statement, and how it is copied",
    "Sweep": "the broker asks for it, and the store does it",
    "Table": "in a database and on a terminal, everyone calls it a table",
}
# These stand alone and load nothing of the server, so they have values and errors of their own for the same things.
ALONE = ("client", "gq", "vsqs", "spark")


def classes() -> dict[str, list[str]]:
    """Where each class that is not private to its module is defined, by its name."""
    found: dict[str, list[str]] = {}
    for module in MODULES:
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(str(module.relative_to(SOURCE)))
    return found


def test_a_class_name_means_one_thing() -> None:
    twice = {}
    for name, places in classes().items():
        inside = [place for place in places if not place.startswith(ALONE)]
        is_request = name in PERMITTED or sorted(place.partition("/")[0] for place in inside) == ["broker", "faces"]
        if len(inside) > 1 and name not in NOUNS and not is_request:
            twice[name] = inside
    assert not twice


@pytest.mark.parametrize("package", ALONE)
def test_a_class_name_means_one_thing_where_it_stands_alone(package: str) -> None:
    found = {name: [place for place in places if place.startswith(package)] for name, places in classes().items()}
    assert not {name: places for name, places in found.items() if len(places) > 1}


def test_a_predicate_says_something() -> None:
    """`is_…`, `has_…` and `wants_…` answer; what they would do instead belongs in a verb."""
    for module in MODULES:
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and re.match(r"_*(is|has|wants)_", node.name):
                returns = ast.unparse(node.returns) if node.returns else "nothing"
                assert returns not in ("None", "nothing"), f"{name_of(module)}: {node.name}"


# Methods of Python's own collections, files and events that change them.
CHANGING = """
    add append appendleft clear difference_update discard extend insert intersection_update pop popitem popleft put
    put_nowait remove reverse set setdefault sort symmetric_difference_update truncate unlink update write
"""


def changes_in(predicate: ast.AST) -> list[str]:
    """What it sets or deletes of its own object, and the changing methods that it calls there."""
    nodes = list(ast.walk(predicate))
    changed = [
        node
        for node in nodes
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del)
    ]
    called = [node.func for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    changed += [method for method in called if method.attr in CHANGING.split()]
    return [text for text in map(ast.unparse, changed) if text.startswith("self.")]


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        ("return self.a == 1", []),
        ("a, self.b = self.b, 0", ["self.b"]),
        ("self.count += 1", ["self.count"]),
        ("self.seen[key] = self.a", ["self.seen[key]"]),
        ("del self.a.b", ["self.a.b"]),
        ("here = other.a = 1", []),
        ("self.seen.append(key)", ["self.seen.append"]),
        ("return self.a[key].pop() == 1", ["self.a[key].pop"]),
        ("return self.a.get(key) in found.copy()", []),
        ("found.append(self.a)", []),
    ],
)
def test_a_change_is_found(body: str, changed: list[str]) -> None:
    assert changes_in(ast.parse(body)) == changed


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_a_predicate_changes_nothing(module: Path) -> None:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and re.match(r"_*(is|has|wants)_", node.name):
            assert changes_in(node) == [], node.name
