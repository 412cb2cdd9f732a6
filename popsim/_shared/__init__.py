"""Helpers that several parts of popsim share; none of them is public."""
