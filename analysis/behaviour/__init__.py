"""What the hand did, and what was chosen."""
