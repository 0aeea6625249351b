"""What the tests and the benchmarks both need. It is not part of the distribution."""
