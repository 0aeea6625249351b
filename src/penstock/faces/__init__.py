"""The documented APIs: each a thin table from its own words to the broker's verbs, and from errors to its answers."""
