"""The history of a training: its rows in memory and on disk, and what is saved to resume it."""
