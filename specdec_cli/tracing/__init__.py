"""The trace of runs: a line of JSON for each round, how it is written, read, summed up and compared."""
