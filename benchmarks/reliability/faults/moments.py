"""A command that trains, and moments in its life at which it gets a signal."""

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

MOMENTS = {
    "start": ("open", "/run.lock"),
    "description": ("open", "/run.json.partial"),
    "compiling": ("begun", ""),
    "training": ("open", "/log.jsonl"),
    "saving": ("open", ".safetensors.partial"),
    "saving, twice": ("open", ".safetensors.partial"),
}
"""By name what happens then. At "saving, twice" it gets a second signal as the checkpoint is renamed."""

_RANDOM = re.compile(r"\.[0-9a-f]{8}(?=\.partial$)")


def arguments_for(path: Path) -> list[str]:
    """`popsim train` of the run that `faults.jobs` begins."""
    settings = ["--members", "2", "--n-batches", "24", "--batch-size", "4", "--log-step", "4"]
    recording = ["--keep", "every 4", "--checkpoint-seconds", "1e-9", "--devices", "1", "--quiet"]
    return ["train", "small-sum", "--out", str(path), *settings, *recording]


def send_signal(
    report: Callable[..., None], path: str, name: str, moment: str, on_begin: list[Callable[[], None]]
) -> None:
    """Have this process send itself a signal at the second such moment, or the first if there is one only.

    **Arguments:**

    - `report`: is told when the signal was sent.
    - `path`: the folder of the run.
    - `name`: such as "SIGTERM".
    - `moment`: one of `MOMENTS`.
    - `on_begin`: the list of what is called when a training has begun, before its program is compiled.
    """
    event_of_moment, ending = MOMENTS[moment]
    number = getattr(signal, name)
    seen = 0

    def send() -> None:
        report(sent=time.monotonic())
        os.kill(os.getpid(), number)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        file = _RANDOM.sub("", str(arguments[0])) if arguments else ""
        if event == event_of_moment and file.startswith(path) and file.endswith(ending):
            seen += 1
            if seen == (1 if moment in ("start", "description") else 2):
                send()
        twice = moment == "saving, twice" and event == "os.rename" and file.endswith(ending)
        if twice and seen == 2:
            os.kill(os.getpid(), number)

    if event_of_moment == "begun":
        jax.config.update("jax_enable_compilation_cache", False)
        on_begin.append(lambda: threading.Timer(0.2, send).start())
    else:
        sys.addaudithook(watch)
