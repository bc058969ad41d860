"""Settings: the table of all of them, profiles, and which source decided each value. Imports nothing heavy."""
