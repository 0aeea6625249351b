"""Clusters: messages that have failed in the same way, by what they and their errors look like.

`triage` tells them and `replay` finds them again, by the same expression over the same columns. So the cluster of a
message depends on the message alone, not on others in its queue, and is the same in the queue and in the lake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import MapType, StringType

if TYPE_CHECKING:
    from pyspark.sql import Column

# What the messages of a cluster have in common.
TRAITS = ("content_type", "shape", "error", "source")
_KEY_CHARACTERS = 16
_ERROR = "(?i)error|exception|reason|cause|fault|fail|problem|status"
# Of a body's own fields fewer: a field called `status` mostly tells of an order, not of an error.
_ERROR_FIELD = "(?i)error|exception|reason|cause|fault"
_SOURCE = "(?i)^(x-)?(source|origin|producer|service|sender|application|app)([-_.].*)?$"
# What differs between two errors of a kind, and what stands for it; in this order.
_PARTICULARS = (
    (r'"(?:[^"\\]|\\.)*"', '"…"'),
    (r"(?<!\w)'[^']*'(?!\w)", "'…'"),
    (r"`[^`]*`", "`…`"),
    (r"\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s,;)\]}>]+", "URL"),
    (r"(?i)\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "ID"),
    (
        r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?)?"
        r"|\b\d\d:\d\d:\d\d(?:[.,]\d+)?",
        "TIME",
    ),
    (r"(?<![\w/.])(?:[A-Za-z]:)?(?:[/\\][\w.@%+~-]+){2,}[/\\]?", "PATH"),
    (r"(?i)\b0x[0-9a-f]+\b|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}\b", "ID"),
    (r"\d+(?:[.,]\d+)*", "N"),
)


def traits(text: Column) -> dict[str, Column]:
    """Of a message with the columns `content_type` and `attributes`, whose body is this text."""
    return {
        "content_type": F.coalesce("content_type", F.lit("")),
        "shape": _shape(text),
        "error": _error(text),
        "source": _named("attributes", _SOURCE),
    }


def cluster_of(text: Column) -> Column:
    """The name of a cluster, the same wherever and whenever it is computed."""
    # As JSON: so nothing in one trait can pass for the next.
    together = F.to_json(F.struct(*(trait.alias(name) for name, trait in traits(text).items())))
    return F.left(F.sha2(together, 256), F.lit(_KEY_CHARACTERS))


def _shape(text: Column) -> Column:
    """The keys of a JSON object; else which kind of body it is."""
    keys = F.json_object_keys(text)
    return (
        F.when(~F.is_valid_utf8(text), "binary")
        .when(F.trim(text) == "", "empty")
        .when(
            keys.isNotNull(), F.concat(F.lit("{"), F.array_join(F.array_sort(F.array_distinct(keys)), ", "), F.lit("}"))
        )
        .when(F.trim(text).startswith("[") & F.try_parse_json(text).isNotNull(), "[…]")
        .otherwise("text")
    )


def _error(text: Column) -> Column:
    """What attributes and fields of the body say of an error, without its particulars."""
    fields = F.from_json(F.when(F.is_valid_utf8(text), text), MapType(StringType(), StringType()))
    told = F.concat_ws("; ", _filled(_named("attributes", _ERROR)), _filled(_named(fields, _ERROR_FIELD)))
    for pattern, instead in _PARTICULARS:
        told = F.regexp_replace(told, pattern, instead)
    return told


def _filled(text: Column) -> Column:
    return F.when(text != "", text)


def _named(pairs: Column | str, pattern: str) -> Column:
    """Those with such names, as `name=value`."""
    chosen = F.map_filter(pairs, lambda name, _: F.rlike(name, F.lit(pattern)))
    told = F.transform(
        F.array_sort(F.map_entries(chosen)),
        lambda it: F.concat(it["key"], F.lit("="), F.coalesce(it["value"], F.lit(""))),
    )
    return F.coalesce(F.array_join(told, "; "), F.lit(""))
