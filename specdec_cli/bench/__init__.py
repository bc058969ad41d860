"""Measures what drafting brings on this machine: workloads, an interleaved schedule, statistics, a verdict."""
