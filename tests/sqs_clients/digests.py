"""The MD5s that an SDK computes for itself and compares with the server's, as AWS describes them.

boto3 compares nothing, but the SDKs for Java, PHP, Ruby and .NET do, and refuse an answer that differs.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Any


def body_digest(body: str) -> str:
    return hashlib.md5(body.encode()).hexdigest()


def attributes_digest(attributes: dict[str, dict[str, Any]]) -> str:
    """Name, type, kind and value of each, in the order of their names; a length before each but the kind."""
    digest = hashlib.md5()
    for name in sorted(attributes):
        one = attributes[name]
        kind, value = (b"\2", one["BinaryValue"]) if "BinaryValue" in one else (b"\1", one["StringValue"].encode())
        digest.update(_counted(name.encode()) + _counted(one["DataType"].encode()) + kind + _counted(value))
    return digest.hexdigest()


def _counted(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text
