"""Signatures of other programs, and everything that is not one."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as some

from penstock import sigv4
from tests.keys.signer import HOST, Signer
from tests.keys.vectors import ACCESS_KEY_ID, SECRET, SIGNED_AT, VECTORS, Vector

SERVICES = ("sqs", "sts")
JSON = VECTORS[0]
PRESIGNED = next(one for one in VECTORS if one.name == "presigned")


def is_signed(vector: Vector, secret: str = SECRET) -> bool:
    signature = sigv4.read_signature(vector.headers, vector.query)
    assert signature is not None
    hashed = sigv4.hash_of(vector.body)
    canonical = sigv4.canonical_request(signature, vector.method, vector.path, vector.query, vector.headers, hashed)
    key = sigv4.signing_key(secret, signature.terms)
    return sigv4.is_signed(signature, key, sigv4.string_to_sign(signature, canonical))


def fault(headers: dict[bytes, bytes], query: str = "", now: int = SIGNED_AT) -> str | None:
    signature = sigv4.read_signature(headers, query)
    assert signature is not None
    return sigv4.fault_of(signature, headers, SERVICES, now)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_what_botocore_signs_is_signed(vector: Vector) -> None:
    assert is_signed(vector)
    assert fault(vector.headers, vector.query) is None
    signature = sigv4.read_signature(vector.headers, vector.query)
    assert (signature.terms.access_key_id, signature.signed_at) == (ACCESS_KEY_ID, SIGNED_AT)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_with_anything_else_it_is_not(vector: Vector) -> None:
    assert not is_signed(vector, SECRET[:-1])
    assert not is_signed(vector._replace(body=vector.body + b" "))
    assert not is_signed(vector._replace(method="PUT"))
    assert not is_signed(vector._replace(path=vector.path + "x"))
    assert not is_signed(vector._replace(query=f"{vector.query}&More=1" if vector.query else "More=1"))
    assert not is_signed(vector._replace(headers={**vector.headers, b"host": b"127.0.0.1:8081"}))


# What AWS has published as a test suite, with its own names.
SUITE_SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"


@pytest.mark.parametrize(
    ("name", "method", "path", "query", "more", "signature"),
    [
        ("get-vanilla", "GET", "/", "", {}, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("post-vanilla", "POST", "/", "", {}, "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        (
            "get-vanilla-query-order-key-case",
            "GET",
            "/",
            "Param2=value2&Param1=value1",
            {},
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        (
            "get-relative",
            "GET",
            "/example/..",
            "",
            {},
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        ),
        (
            "get-slash-dot-slash",
            "GET",
            "/./",
            "",
            {},
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        ),
        ("get-slash", "GET", "//", "", {}, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        (
            "get-header-value-trim",
            "GET",
            "/",
            "",
            {b"my-header1": b" value1 ", b"my-header2": b' "a   b   c" '},
            "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith(("get-", "post-")) else "",
)
def test_the_suite_of_aws(
    name: str, method: str, path: str, query: str, more: dict[bytes, bytes], signature: str
) -> None:
    names = b";".join(sorted([b"host", b"x-amz-date", *more]))
    headers = {
        b"host": b"example.amazonaws.com",
        b"x-amz-date": b"20150830T123600Z",
        b"authorization": b"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
        b"SignedHeaders=%b, Signature=%b" % (names, signature.encode()),
        **more,
    }
    assert is_signed(Vector(name, method, path, query, headers, b""), SUITE_SECRET)


# How a signature may be presented


def presented(text: bytes, **more: bytes) -> dict[bytes, bytes]:
    named = {name.replace("_", "-").encode(): value for name, value in more.items()}
    return {b"host": b"h", b"x-amz-date": b"20260304T050607Z", b"authorization": text, **named}


CREDENTIAL = b"Credential=shop/20260304/eu-west-1/sqs/aws4_request"
SIGNED = b"SignedHeaders=host;x-amz-date"
SIGNATURE = b"Signature=" + b"0" * 64
WHOLE = b"AWS4-HMAC-SHA256 " + b", ".join((CREDENTIAL, SIGNED, SIGNATURE))


@pytest.mark.parametrize(
    "fields",
    [
        b", ".join((CREDENTIAL, SIGNED, SIGNATURE)),
        b",".join((CREDENTIAL, SIGNED, SIGNATURE)),
        b" ,\t".join((SIGNATURE, CREDENTIAL, SIGNED)),
        b",".join((CREDENTIAL, b"SignedHeaders=Host;X-Amz-Date", SIGNATURE)),
    ],
)
def test_the_fields_may_stand_in_any_order(fields: bytes) -> None:
    signature = sigv4.read_signature(presented(b"AWS4-HMAC-SHA256 " + fields), "")
    assert signature.terms.access_key_id == "shop"
    assert signature.terms.header_names == (b"host", b"x-amz-date")
    assert signature.value == b"0" * 64
    assert signature.terms.scope == b"20260304/eu-west-1/sqs/aws4_request"


def test_long_ones_are_read_too() -> None:
    names = b"SignedHeaders=host;x-amz-date;" + b";".join(b"x-%d" % number for number in range(1_000))
    signature = sigv4.read_signature(presented(b"AWS4-HMAC-SHA256 " + b", ".join((CREDENTIAL, names, SIGNATURE))), "")
    assert len(signature.terms.header_names) == 1_002


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({}, ""),
        ({b"authorization": b"Bearer psk_x"}, ""),
        ({b"authorization": b"Basic x"}, ""),
        ({b"authorization": b""}, "Action=ListQueues"),
        ({}, "Action=ListQueues&My-X-Amz-Signature=1&x-amz-signature=2"),
        ({}, "AWSAccessKeyId=x&Signature=y&SignatureVersion=2"),
    ],
)
def test_where_there_is_none(headers: dict[bytes, bytes], query: str) -> None:
    assert sigv4.read_signature(headers, query) is None


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        (presented(b"AWS4-HMAC-SHA256"), "Invalid key=value pair"),
        (presented(b"AWS4-HMAC-SHA256 garbage"), "Invalid key=value pair"),
        (presented(WHOLE + b", Signature=1"), "Invalid key=value pair"),
        (
            presented(b"AWS4-HMAC-SHA256 a=b"),
            "requires 'Credential' parameter. Authorization header requires 'Signature'",
        ),
        (presented(WHOLE.replace(b"SignedHeaders", b"Headers")), "requires 'SignedHeaders' parameter."),
        (presented(WHOLE.replace(b"SHA256", b"SHA512")), "Unsupported AWS 'algorithm'"),
        (presented(WHOLE.replace(b"AWS4-HMAC", b"AWS4-ECDSA-P256")), "Unsupported AWS 'algorithm'"),
        (presented(b"AWS shop:c2lnbmF0dXJl"), "Unsupported AWS 'algorithm'"),
        (presented(WHOLE.replace(b"shop/", b"")), "exactly 5 slash-delimited elements"),
        (presented(WHOLE.replace(b"shop/", b"shop/shop/")), "exactly 5 slash-delimited elements"),
        (presented(WHOLE, x_amz_date=b""), "either a 'X-Amz-Date' or a 'Date' header"),
        (presented(WHOLE, x_amz_date=b"", date=b"yesterday"), "either a 'X-Amz-Date' or a 'Date' header"),
        (presented(WHOLE, x_amz_date=b"2026-03-04T05:06:07Z"), "ISO-8601 'basic format'"),
        (presented(WHOLE, x_amz_date=b"20260304T050607Z, 20260304T050607Z"), "ISO-8601 'basic format'"),
        (presented(WHOLE, x_amz_date=b"20261304T050607Z"), "ISO-8601 'basic format'"),
        (presented(WHOLE, x_amz_date=b"20260304T250607Z"), "ISO-8601 'basic format'"),
        (presented(WHOLE, x_amz_date=b"\xb2\xb3260304T050607Z"), "ISO-8601 'basic format'"),
    ],
)
def test_what_cannot_be_read_is_said(headers: dict[bytes, bytes], why: str) -> None:
    with pytest.raises(sigv4.MalformedSignature) as caught:
        sigv4.read_signature(headers, "")
    assert why in str(caught.value)
    assert "shop" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("X-Amz-Algorithm=AWS4-HMAC-SHA256", "X-Amz-Algorithm=AWS4"), "Unsupported AWS 'algorithm'"),
        (("X-Amz-Date=20260304T050607Z&", ""), "must include 'X-Amz-Date'."),
        (("X-Amz-Expires=3600&", ""), "must include 'X-Amz-Expires'."),
        (("X-Amz-Signature", "x-amz-signature"), "must include 'X-Amz-Signature'."),
        (("X-Amz-Expires=3600", "X-Amz-Expires=604801"), "from 1 to 604800"),
        (("X-Amz-Expires=3600", "X-Amz-Expires=0"), "from 1 to 604800"),
        (("X-Amz-Expires=3600", "X-Amz-Expires=-1"), "from 1 to 604800"),
        (("X-Amz-Expires=3600", "X-Amz-Expires="), "from 1 to 604800"),
        (("X-Amz-Expires=3600", "X-Amz-Expires=" + "9" * 5_000), "from 1 to 604800"),
        (("X-Amz-Expires=3600", "X-Amz-Expires=3600&X-Amz-Expires=60"), "'X-Amz-Expires' twice"),
        (("X-Amz-Expires=3600", "X-Amz-Expires=3600&X-Amz-%45xpires=60"), "'X-Amz-Expires' twice"),
        (("20260304T050607Z", "now"), "ISO-8601 'basic format'"),
        (("shop%2F", ""), "exactly 5 slash-delimited elements"),
        (("shop%2F", "shop%0A%2F"), "visible characters"),
        (("SignedHeaders=host", "SignedHeaders=host%0Ax%3Ay"), "visible characters"),
        (("SignedHeaders=host", "SignedHeaders="), "visible characters"),
        (("SignedHeaders=host", "SignedHeaders=host%3B"), "visible characters"),
    ],
)
def test_an_address_that_cannot_be_read_is_said(change: tuple[str, str], why: str) -> None:
    with pytest.raises(sigv4.MalformedSignature) as caught:
        sigv4.read_signature(PRESIGNED.headers, PRESIGNED.query.replace(*change))
    assert why in str(caught.value)


# What no signature makes good


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        (presented(WHOLE), None),
        (presented(WHOLE.replace(b"/sqs/", b"/sts/")), None),
        (presented(WHOLE.replace(b"/sqs/", b"/s3/")), "scoped to correct service: 'sqs', 'sts'."),
        (presented(WHOLE.replace(b"aws4_request", b"aws4")), "valid terminator: 'aws4_request'."),
        (presented(WHOLE.replace(b"eu-west-1", b"")), "valid region"),
        (presented(WHOLE.replace(b"20260304", b"20260303")), "'20260303' != '20260304', from '20260304T050607Z'."),
        (presented(WHOLE.replace(b"host;", b"")), "'Host' or ':authority' must be a 'SignedHeader'"),
        (presented(WHOLE, x_amz_target=b"AmazonSQS.PurgeQueue"), "not signed: x-amz-target"),
        (presented(WHOLE, x_amzn_trace_id=b"Root=1", amz_sdk_request=b"1", user_agent=b"x", accept=b"*/*"), None),
        (presented(WHOLE.replace(b";x-amz-date", b"")), "not signed: x-amz-date"),
    ],
)
def test_scope_and_headers(headers: dict[bytes, bytes], why: str | None) -> None:
    found = fault(headers)
    assert found is None if why is None else why in found


MINUTE = 60_000


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (SIGNED_AT + 15 * MINUTE, None),
        (SIGNED_AT - 15 * MINUTE, None),
        (
            SIGNED_AT + 15 * MINUTE + 1000,
            "Signature expired: 20260304T050607Z is now earlier than 20260304T050608Z (20260304T052108Z - 15 min.)",
        ),
        (
            SIGNED_AT - 15 * MINUTE - 1000,
            "Signature not yet current: 20260304T050607Z is still later than 20260304T050606Z "
            "(20260304T045106Z + 15 min.)",
        ),
    ],
)
def test_clocks_may_be_a_quarter_of_an_hour_apart(now: int, why: str | None) -> None:
    assert fault(JSON.headers, now=now) == why


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (SIGNED_AT + 3_600_000, None),
        (SIGNED_AT + 3_600_001, "Signature expired"),
        (SIGNED_AT - 15 * MINUTE, None),
        (SIGNED_AT - 15 * MINUTE - 1, "Signature not yet current"),
    ],
)
def test_an_address_is_good_for_as_long_as_it_says(now: int, why: str | None) -> None:
    found = fault(PRESIGNED.headers, PRESIGNED.query, now)
    assert found is None if why is None else found.startswith(why)


def test_the_header_date_may_be_written_in_two_ways() -> None:
    for date in (b"Wed, 04 Mar 2026 05:06:07 GMT", b"Wed, 04 Mar 2026 06:06:07 +0100", b"20260304T050607Z"):
        signature = sigv4.read_signature(presented(WHOLE, x_amz_date=b"", date=date), "")
        assert (signature.stamp, signature.signed_at) == (b"20260304T050607Z", SIGNED_AT)


# Properties

NAMES = some.text(some.characters(min_codepoint=33, max_codepoint=0x3000, exclude_categories=("Cs",)), min_size=1)
VALUES = some.text(some.characters(exclude_categories=("Cs",)))


@given(some.dictionaries(NAMES.map("a{}".format), VALUES, max_size=5))
def test_a_signature_covers_what_a_handler_reads_of_the_query(parameters: dict[str, str]) -> None:
    query = Signer("shop", SECRET).query(SIGNED_AT, "GET", "/", **parameters)
    vector = Vector("", "GET", "/", query, {b"host": HOST.encode()}, b"")
    assert is_signed(vector)
    # Written in another way, it says the same.
    other = "&".join(reversed(query.replace("%20", "+").split("&")))
    assert is_signed(vector._replace(query=other))
    read = {name: value for name, value in parse_qsl(other, keep_blank_values=True) if name[0] == "a"}
    assert read == parameters


@given(some.binary(), some.text())
def test_whatever_comes_is_read_or_refused(text: bytes, query: str) -> None:
    for headers in (presented(text), presented(b"AWS4-HMAC-SHA256 " + text), presented(WHOLE, x_amz_date=text)):
        with suppress(sigv4.MalformedSignature):
            sigv4.read_signature(headers, query.encode("utf-8", "replace").decode("latin-1"))
