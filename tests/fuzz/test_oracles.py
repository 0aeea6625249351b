"""What the targets compare with: a reader of HTTP and of signatures that must itself be right."""

from __future__ import annotations

import pytest

from soak.fuzz.edge import fuzz_edge
from soak.fuzz.finding import Finding
from soak.fuzz.mutation import Mutator
from soak.fuzz.reading import read_answers, read_requests
from soak.fuzz.run import inputs_of, run
from soak.fuzz.signatures import AWS_SECRET
from soak.fuzz.signing import is_right
from soak.fuzz.targets import TARGETS, Target

GET = b"GET /now HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /now HTTP/1.1\r\nHost: x\r\n"


def test_requests_are_read_one_after_the_other() -> None:
    chunks = b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n"
    read = read_requests(GET + POST + b"Content-Length: 2\r\n\r\nhi" + POST + chunks + GET)
    assert [(asked.method, asked.body) for asked in read.requests] == [
        ("GET", b""),
        ("POST", b"hi"),
        ("POST", b"abc"),
        ("GET", b""),
    ]


@pytest.mark.parametrize(
    "rest",
    [
        b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Content-Length: +2\r\n\r\nhi",
        b"Content-Length : 2\r\n\r\nhi",
        b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
        b"A: b\r\n c\r\n\r\n",
        b"A: b\n\r\n\r\n",
        b"Host: y\r\n\r\n",
    ],
)
def test_nothing_is_read_behind_what_readers_disagree_about(rest: bytes) -> None:
    read = read_requests(GET + POST + rest + GET)
    assert len(read.requests) == 1
    assert not read.is_open


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


@pytest.mark.parametrize(
    "wrong",
    [
        ANSWER[:-1],
        ANSWER + b"x\r\n\r\n",
        ANSWER.replace(b"Content-Length: 2", b"A: b"),
        ANSWER.replace(b"\r\n\r\n", b"\r\nContent-Length: 2\r\n\r\n"),
        ANSWER.replace(b"\r\nC", b"\r\nConnection: close\r\nC") + ANSWER,
        ANSWER.replace(b"\r\nC", b"\r\nA: b\nC"),
    ],
)
def test_an_answer_that_a_client_could_misread_is_found(wrong: bytes) -> None:
    assert len(read_answers(ANSWER * 2, ["GET", "GET"])) == 2
    with pytest.raises(Finding):
        read_answers(wrong, ["GET"])


def test_a_signature_is_right_only_for_what_was_signed() -> None:
    signed = (TARGETS["sigv4"].corpus / "signed").read_bytes()
    head, _, body = signed.partition(b"\n\n")
    lines = [line.partition(b": ") for line in head.split(b"\n")[1:]]
    headers = {b"host": b"127.0.0.1:8080", **{name: value for name, _, value in lines}}
    assert is_right(AWS_SECRET, "POST", "/", "", headers, body)
    assert not is_right(AWS_SECRET, "POST", "/", "", headers, body + b" ")
    assert not is_right(AWS_SECRET, "GET", "/", "", headers, body)
    assert not is_right(AWS_SECRET, "POST", "/", "a=b", headers, body)
    assert not is_right(AWS_SECRET + "x", "POST", "/", "", headers, body)


def test_a_server_that_reads_other_requests_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the edge took the length of a body for one less than it is."""
    monkeypatch.setattr(
        "soak.fuzz.edge.read_requests", lambda data: read_requests(data.replace(b" 11\r\n", b" 10\r\n"))
    )
    with pytest.raises(Finding):
        fuzz_edge(b"ab" + POST + b"Content-Length: 11\r\n\r\nhello world")


def test_the_same_seed_makes_the_same_inputs() -> None:
    from random import Random

    target = TARGETS["native"]
    one, other = (Mutator(Random(5), inputs_of(target), target.words, 300) for _ in range(2))
    assert [one.next() for _ in range(50)] == [other.next() for _ in range(50)]


def test_a_finding_is_left_with_the_way_to_run_it_again(tmp_path, monkeypatch) -> None:
    def fails(data: bytes) -> None:
        raise Finding("it broke")

    monkeypatch.setattr("soak.fuzz.run.signal.setitimer", lambda *_words: None)
    done = run(Target("native", "", fails, (b"a",)), 10, 1, float("inf"), tmp_path)
    assert "it broke" in done.finding
    [kept] = tmp_path.iterdir()
    assert f"--replay {kept}" in done.finding
