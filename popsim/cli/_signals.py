"""How a command ends by a signal: a training saves first, all others at once."""

import atexit
import contextlib
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

SIGNALS = ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP")  # those that the system supports are used
EXIT_CODE = 75  # EX_TEMPFAIL of sysexits.h: not finished, try again


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGINT, SIGTERM, SIGUSR1 and SIGHUP end a command with a line on standard error and `EXIT_CODE`.

    They do so at the exit of the process, too. Outside of the main thread nothing is caught.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        if _is_importing(frame):
            _leave(number)
        received.append(number)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in caught_signals()}
    try:
        yield
    except BaseException:
        if not received:
            raise
        _tell(received[0])
        sys.exit(EXIT_CODE)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        atexit.unregister(_leave_on_signals)
        atexit.register(_leave_on_signals)  # last, so that it is called before what libraries do at the exit


def caught_signals() -> list[signal.Signals]:
    """Return the signals that this system has, without a SIGHUP that is ignored, as under `nohup`."""
    numbers = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
    hangups = [number for number in numbers if number.name == "SIGHUP"]
    ignored = [number for number in hangups if signal.getsignal(number) is signal.SIG_IGN]
    return [number for number in numbers if number not in ignored]


def _leave_on_signals() -> None:
    for number in caught_signals():
        signal.signal(number, _leave)


def _leave(number: int, _: FrameType | None = None) -> None:
    _tell(number)
    os._exit(EXIT_CODE)


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported, in which an exception could be lost or become another one."""
    files = (each.f_code.co_filename for each, _ in traceback.walk_stack(frame))
    return any(file.startswith("<frozen importlib") for file in files)


def _tell(number: int) -> None:
    with contextlib.suppress(OSError):  # of a terminal that is closed
        line = f"popsim: stopped by {signal.Signals(number).name}\n"
        os.write(2, (f"\n{line}" if os.isatty(2) else line).encode())  # below a line that is waited in


@contextlib.contextmanager
def stop_on_signals(on_idle: Callable[[], str]) -> Iterator[Callable[[], bool]]:
    """Catch SIGINT, SIGTERM, SIGUSR1 and SIGHUP: `stop()` returns whether one of them has arrived.

    A SIGHUP that is ignored at the start, as under `nohup`, stays ignored. Output to a closed terminal is
    discarded. Before the first call of `stop` there is nothing to save, so a signal ends the process at once
    with the message of `on_idle` and `EXIT_CODE`, even during a compilation, in which Python handles no
    signals. Outside of the main thread, which alone gets signals in Python, none is caught.
    """
    received, polled = threading.Event(), threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield received.is_set
        return

    def stop() -> bool:
        polled.set()
        return received.is_set()

    def leave_if_idle(wakeup: socket.socket) -> None:
        """Run in a thread that the system wakes by a byte when a signal arrives."""
        while byte := wakeup.recv(1):
            if byte[0] not in theirs:
                continue
            received.set()
            if not polled.is_set():
                with contextlib.suppress(OSError):
                    below = "\n" * os.isatty(2)  # the line that is waited in
                    print(f"{below}{on_idle()}", file=sys.stderr, flush=True)
                os._exit(EXIT_CODE)

    def receive(*_: Any) -> None:
        received.set()
        _leave_closed(terminals)

    theirs: dict[Any, Any] = {number: signal.getsignal(number) for number in caught_signals()}
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


def stop_when_input_ends() -> None:
    """Send SIGTERM to this process when its standard input ends."""

    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 1024):  # without Python's buffer, whose lock would be held at exit
                pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def _leave_closed(terminals: list[int]) -> None:
    """Redirect descriptors whose terminal was closed to nowhere, as writing to them would fail."""
    with open(os.devnull, "wb") as nowhere:
        for descriptor in terminals:
            if not os.isatty(descriptor):
                os.dup2(nowhere.fileno(), descriptor)
