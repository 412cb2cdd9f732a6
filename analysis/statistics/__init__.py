"""Uncertainty over members: what is a replicate, and how sure a mean is."""
