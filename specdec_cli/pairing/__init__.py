"""Whether a draft suits a target, decided from headers alone."""
