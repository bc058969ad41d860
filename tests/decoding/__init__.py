"""Tests of the algorithm, on fakes alone."""
