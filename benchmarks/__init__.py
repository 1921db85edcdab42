"""Benchmarks: `make bench` prints every figure as a ratio measured in one run."""
