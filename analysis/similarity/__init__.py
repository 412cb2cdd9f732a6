"""How alike the members of a population are."""
