"""What a terminal or a notebook shows while something takes long: a line whose seconds move."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

from tqdm.auto import tqdm

SECONDS_BETWEEN_REFRESHES = 0.5


def is_interactive() -> bool:
    """Whether standard error shows lines that change: it is a terminal, or this is a notebook."""
    is_notebook = any(kind.__module__ == "tqdm.notebook" for kind in tqdm.__mro__)
    return is_notebook or (sys.stderr is not None and sys.stderr.isatty())


def waiting_text(subject: str, seconds: float) -> str:
    """Return such as "compiling … 7 s"."""
    return f"{subject} … {seconds:.0f} s"


@contextlib.contextmanager
def call_regularly(refresh: Callable[[], None]) -> Iterator[None]:
    """Call a function about twice a second from another thread, until the context ends."""
    ended = threading.Event()

    def call() -> None:
        while not ended.wait(SECONDS_BETWEEN_REFRESHES):
            refresh()

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextlib.contextmanager
def waiting_line(subject: str, *, disable: bool = False) -> Iterator[None]:
    """Show on a terminal what is being waited for, and for how long, until the context ends."""
    if disable or not is_interactive():
        yield
        return
    begun = time.perf_counter()
    line = tqdm(bar_format="{desc}", desc=waiting_text(subject, 0.0), leave=False, dynamic_ncols=True)

    def refresh() -> None:
        line.set_description_str(waiting_text(subject, time.perf_counter() - begun))

    try:
        with call_regularly(refresh):
            yield
    finally:
        line.close()
