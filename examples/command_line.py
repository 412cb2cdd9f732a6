"""What the scripts of the paper figures share: their options, and the second process that draws."""

import argparse
import subprocess
import sys
from pathlib import Path

OUT = Path(__file__).parent / "out"


def parse_options(
    script: str, description: str, *, in_fresh_process: bool = False, short_form: str | None = None
) -> argparse.Namespace:
    """The options of a figure's script: `out`, `seed`, `quick` where it has a short form, and `saved` where
    it runs itself a second time.

    **Arguments:**

    - `script`: the file.
    - `description`: its docstring, of which the first line is shown.
    - `in_fresh_process`: whether the figure is drawn by a process of its own.
    - `short_form`: what `--quick` does; None where there is no short form.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    out = OUT / Path(script).stem
    parser.add_argument("--out", type=Path, default=out, help=f"folder of the figure (default: {out.name})")
    parser.add_argument("--seed", type=int, default=0, help="of weights, trials and noise")
    if short_form is not None:
        parser.add_argument("--quick", action="store_true", help=short_form)
    if in_fresh_process:
        parser.add_argument("--saved", action="store_true", help="do not train: histories are in the folder")
    return parser.parse_args()


def run_on_saved(script: str, options: argparse.Namespace) -> int:
    """Run a script again, in a fresh process, on the histories that this one saved; its exit code."""
    command = [sys.executable, script, "--saved", "--out", str(options.out), "--seed", str(options.seed)]
    if getattr(options, "quick", False):
        command.append("--quick")
    return subprocess.run(command, check=False).returncode
