"""Stand-ins for models, drafters, grammars and chance: small, exact, and quick to complain."""
