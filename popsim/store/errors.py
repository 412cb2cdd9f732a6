"""What can be wrong with what lies on disk."""


class DamagedError(ValueError):
    """A file is not as it was written, or missing. The message names it."""


class MismatchError(ValueError):
    """A file was written by something else than what reads it. The message names what differs."""


class SaveError(OSError):
    """Something could not be written, such as on a full disk. What was saved before is as it was."""
