"""Speed, always as a ratio within one run: machines are noisy, and absolute figures say little."""
