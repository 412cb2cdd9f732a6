"""What was written."""

import dataclasses
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class WrittenReport:
    """A page, the figures beside it, and the table to print.

    - `page`: the HTML file.
    - `n_bytes`: its size.
    - `figures`: the PNG files; beside each is a PDF.
    - `table`: the results as text.
    """

    page: Path
    n_bytes: int
    figures: list[Path]
    table: str
