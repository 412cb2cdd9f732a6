"""How a command ends by a signal, from its first moment on."""

import atexit
import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from types import FrameType

SIGNALS = ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP")  # those that the system supports are used
EXIT_CODE = 75  # EX_TEMPFAIL of sysexits.h: not finished, try again


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGINT, SIGTERM, SIGUSR1 and SIGHUP end a command with a line on standard error and `EXIT_CODE`.

    They do so at the exit of the process, too. For trainings, which save first, see
    `popsim.cli._train.stop_on_signals`. Outside of the main thread, which alone gets signals in Python,
    nothing is caught.
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
    return [
        number
        for number in numbers
        if not (number.name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN)
    ]


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
