"""Refuse an editable install of a clone in which git wrote text files in place of symbolic links."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class LinkCheck(BuildHookInterface):
    """The build hook that hatchling finds by its base class."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raise if this is an editable install and the links are missing; a wheel needs none."""
        if version == "editable" and not Path(self.root, ".path", "popsim").is_dir():
            raise RuntimeError(
                "this clone has text files in place of the links .path/popsim, popsim/tasks and "
                "popsim/analysis: clone with `git clone -c core.symlinks=true`, on Windows in developer "
                "mode, or install without `--editable`."
            )
