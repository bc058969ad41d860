"""Everything a person sees of a run: text, notices, progress, statistics."""
