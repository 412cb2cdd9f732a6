"""Signals that tell a command to stop."""

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

SIGNALS = ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP")  # as far as the system has them
EXIT_CODE = 75  # EX_TEMPFAIL of sysexits.h: not finished, to be tried again


@contextlib.contextmanager
def stop_on_signals(on_idle: Callable[[], str]) -> Iterator[Callable[[], bool]]:
    """Turns SIGINT, SIGTERM, SIGUSR1 and SIGHUP into an answer: `with stop_on_signals(...) as stop`.

    `stop()` says whether one of them came; further ones change nothing. A SIGHUP that is ignored at the
    start, as under `nohup`, stays so. When the terminal is closed, what is said to it goes nowhere. Until
    `stop` is asked for the first time there is nothing to save: the process leaves at once with `EXIT_CODE`,
    also out of the compilation of a program, during which Python handles no signals.

    **Arguments:**

    - `on_idle`: what is then said on standard error when the process leaves like that.
    """
    received, asked = threading.Event(), threading.Event()

    def stop() -> bool:
        asked.set()
        return received.is_set()

    def leave_if_idle(wakeup: socket.socket) -> None:
        """Runs in a thread of its own, which the system wakes by a byte when a signal comes."""
        while byte := wakeup.recv(1):
            if byte[0] not in theirs:
                continue
            received.set()
            if not asked.is_set():
                with contextlib.suppress(OSError):
                    print(on_idle(), file=sys.stderr, flush=True)
                os._exit(EXIT_CODE)

    def receive(*_: Any) -> None:
        received.set()
        _leave_closed(terminals)

    ours = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
    theirs: dict[Any, Any] = {number: signal.getsignal(number) for number in ours if not _is_nohup(number)}
    terminals = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    before = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(target=leave_if_idle, args=(reading,), daemon=True)
    watcher.start()
    try:
        for number in theirs:
            signal.signal(number, receive)
        yield stop
    finally:
        for number, handler in theirs.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before)
        writing.close()
        watcher.join()
        reading.close()


def _is_nohup(number: Any) -> bool:
    """Whether a signal is a SIGHUP that is ignored."""
    return signal.Signals(number).name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN


def _leave_closed(terminals: list[int]) -> None:
    """Let those of the given descriptors whose terminal was closed lead nowhere: writing to it would fail."""
    for descriptor in terminals:
        if not os.isatty(descriptor):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)
