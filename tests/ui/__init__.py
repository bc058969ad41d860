"""Tests of the display."""
