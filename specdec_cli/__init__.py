"""specdec: speculative decoding for GGUF models, lossless and never slower."""

__version__ = "0.1.0"
