"""Tests of specdec_cli.proof."""
