"""The databases, side by side: each module holds the driver, the dialect, the store and the wake-ups of one of them."""
