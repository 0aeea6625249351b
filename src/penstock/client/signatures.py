"""What `help()`, editors and `inspect` see of a method that was made of a request's description."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TypeVar

M = TypeVar("M", bound=Callable[..., object])

_RESULT = re.compile(r"Request\[(.*?)\](?: \| Moot\[\1\])?")


def as_method(method: M, describe: Callable[..., object]) -> M:
    """The parameters of the description, behind `self`, and what it is that the request results in."""
    told = inspect.signature(describe)
    result = _RESULT.fullmatch(str(told.return_annotation))
    if result is None:
        raise TypeError(f"{describe.__name__} does not say what its request results in")
    self = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    signature = told.replace(parameters=[self, *told.parameters.values()], return_annotation=result[1])
    method.__signature__ = signature  # type: ignore[attr-defined]
    method.__annotations__ = {**describe.__annotations__, "return": result[1]}
    return method
