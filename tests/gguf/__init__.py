"""Tests of the header reader."""
