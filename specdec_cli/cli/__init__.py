"""The command line: the only importer of typer. One file for each command."""
