"""What the units of a network did together."""
