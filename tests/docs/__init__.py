"""Checks of the documentation: its pages, and the commands in them."""
