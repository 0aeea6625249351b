"""The servers that do a part of the work answer as those do that do all of it."""

from __future__ import annotations

import http.client

import pytest

from bench import servers, stages
from bench.load import read

WRK = """Running 1s test @ http://127.0.0.1:46007/noop/send
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   650.14us  120.97us   5.62ms   93.20%
    Req/Sec    97.73k     3.31k  101.77k    90.00%
  Latency Distribution
     50%  632.00us
     75%  678.00us
     90%    1.73ms
     99%    2.92ms
  97228 requests in 1.00s, 11.13MB read
  Non-2xx or 3xx responses: 3
Requests/sec:  97201.55
Transfer/sec:     11.12MB
"""


def test_what_wrk_prints():
    load = read(WRK)
    assert (load.requests, load.per_second, load.errors) == (97228, 97201.55, 3)
    assert load.median_s == pytest.approx(632e-6)


def test_a_stage_is_what_it_adds():
    levels = [6.0, 10.0, 11.0, 15.0, 21.0, 22.5]
    assert stages.differences(levels) == {
        "sockets": 6,
        "edge": 4,
        "telling": 1,
        "face": 4,
        "rows": 6,
        "log_and_sync": 1.5,
    }


def ask(url: str, method: str, path: str, body: bytes | None = None) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    connection.request(method, path, body)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response


@pytest.mark.parametrize("words", [(), ("guarded",)], ids=["open", "guarded"])
def test_the_edge_over_a_store_that_keeps_nothing(words):
    with servers.edge_noop(*words) as (url, _):
        assert ask(url, "POST", "/messages/q", b"hello").status == 201
        claimed = ask(url, "GET", "/messages/q")
        assert claimed.status == 200
        message = claimed.headers["X-MQS-MESSAGE-ID"]
        assert ask(url, "DELETE", f"/messages/{message}").status == 204


def test_the_edge_alone():
    with servers.edge_noop() as (url, _):
        for path in ("/noop/q", "/later/q"):
            assert [ask(url, method, path).status for method in ("POST", "GET", "DELETE")] == [200] * 3


def test_sockets_alone():
    with servers.sockets_noop() as (url, _):
        assert ask(url, "POST", "/messages/q", b"hello").status == 200
