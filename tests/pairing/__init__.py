"""Tests of the pair gate."""
