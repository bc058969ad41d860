"""GGUF headers: metadata and tensor table, bounds-checked; never tensor data."""
