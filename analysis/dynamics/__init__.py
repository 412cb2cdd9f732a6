"""Where the dynamics of a network rest, and what they do near there."""
