"""Proof on a person's own files that drafting leaves the target's law alone."""
