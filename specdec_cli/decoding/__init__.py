"""The algorithm: processed distributions, verification, the round, the governor. numpy only, no I/O."""
