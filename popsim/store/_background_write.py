"""A write in the background, for which the next one waits."""

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future


class BackgroundWrite:
    """A write in a thread of its own, for which the next one waits.

    Signals and interrupts reach only the main thread, so a write that has started runs to its end. A failure
    that nobody waited for is printed when the process ends.
    """

    def __init__(self) -> None:
        self._pending: list[Future] = []
        weakref.finalize(self, _finish, self._pending)

    def start(self, write: Callable[[], None]) -> None:
        """Start `write` when the previous write has ended.

        **Raises:** the error of the previous write; `write` is then not started.
        """
        self.wait()
        self._pending.append(done := Future())
        thread = threading.Thread(target=_run, args=(write, done), name="popsim background write")
        try:
            thread.start()
        except BaseException:
            if thread.ident is None:
                self._pending.clear()
            raise

    @property
    def is_running(self) -> bool:
        """Whether a write is in progress."""
        return any(not done.done() for done in self._pending)

    def wait(self) -> None:
        """Wait for the current write.

        **Raises:** the error of that write, once.
        """
        _finish(self._pending)


def _run(write: Callable[[], None], done: Future) -> None:
    try:
        done.set_result(write())
    except BaseException as error:
        done.set_exception(error)


def _finish(pending: list[Future]) -> None:
    while pending:
        error = pending[0].exception()  # may be interrupted, and called again
        pending.pop(0)
        if error is not None:
            raise error
