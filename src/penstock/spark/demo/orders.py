"""The orders of a day, invented: the same seed gives the same orders. Some come twice, a few are wrong, one or two
are not JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random

_COUNTRIES = ("DE", "FR", "NL", "AT", "PL", "ES", "IT", "DK")
_ARTICLES = (
    ("mug", 9.5),
    ("kettle", 49.0),
    ("teapot", 35.0),
    ("tea, green", 7.9),
    ("tea, black", 6.5),
    ("strainer", 4.2),
)
# One order in so many is sent twice by an impatient shop, and one in so many has a country without shipping.
_TWICE = 40
_NOWHERE = 90


def order_lines(count: int, seed: int, part: str) -> Iterator[str]:
    """Exactly `count` lines for a part of the day, twins and wrong ones included."""
    chance = Random(f"{seed}/{part}")  # noqa: S311
    left = count
    number = 0
    # At most one line in ten: a very small day has no poison.
    if left >= 10:
        yield f'{{"order": "{part}-broken", "items": [{{"article": '
        left -= 1
    while left:
        number += 1
        line = json.dumps(_order(f"{part}-{number:05}", chance))
        yield line
        left -= 1
        if left and chance.randrange(_TWICE) == 0:
            yield line
            left -= 1


def _order(name: str, chance: Random) -> dict[str, object]:
    items = []
    for article, price in chance.sample(_ARTICLES, chance.choice((1, 1, 1, 2, 2, 3))):
        items.append({"article": article, "price": price, "pieces": chance.choice((1, 1, 2, 4))})
    country = "Atlantis" if chance.randrange(_NOWHERE) == 0 else chance.choice(_COUNTRIES)
    return {"order": name, "customer": f"c-{chance.randrange(1, 2000):04}", "country": country, "items": items}
