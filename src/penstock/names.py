"""What a queue may be called.

One rule serves every API: the letters, digits and signs that EmoDB allows, and capital letters for the
APIs without that limit. A name never holds a slash, so it never escapes a path; the one slash we
use ourselves (`dedupq/x`) marks a name space and cannot be typed through a face.
"""

from __future__ import annotations

import re

from penstock import limits
from penstock.errors import InvalidRequest

DEDUP_SPACE = "dedupq/"
CHARACTERS = "[A-Za-z0-9._:@-]"
_NAME = re.compile(f"{CHARACTERS}+", re.ASCII)


def is_valid(name: str) -> bool:
    return 0 < len(name) <= limits.NAME_LENGTH and name not in (".", "..") and _NAME.fullmatch(name) is not None


def check_with_space(name: str) -> str:
    """For callers that may give a name space as well."""
    check(name.removeprefix(DEDUP_SPACE))
    return name


def check(name: str) -> str:
    """The name itself, or an error that says what a name may be."""
    if not is_valid(name):
        raise InvalidRequest(
            f"a queue name is 1 to {limits.NAME_LENGTH} of the characters A-Z a-z 0-9 . _ : @ - "
            "and neither '.' nor '..'"
        )
    return name
