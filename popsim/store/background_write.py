"""One write at a time in a background thread, whose failure never goes unnoticed."""

import threading
import weakref
from collections.abc import Callable


class BackgroundWrite:
    """Runs writes one after the other, each in a thread of its own.

    A signal or an interrupt reaches the main thread only: a write that was started runs to its end.
    A failure that nobody waited for is printed when the process ends.
    """

    def __init__(self) -> None:
        self._ended = threading.Event()  # `Thread.join`, once interrupted, takes the thread for ended
        self._ended.set()
        self._errors: list[BaseException] = []
        self._one_at_a_time = threading.Lock()
        weakref.finalize(self, _raise_first, self._errors)

    def start(self, write: Callable[[], None]) -> None:
        """Start `write`, once the one before it has ended.

        **Raises:** what the write before it raised; then nothing is started.
        """
        self.wait()
        thread = threading.Thread(target=self._run, args=(write,), name="popsim background write")
        self._ended.clear()
        try:
            thread.start()
        except BaseException:
            if thread.ident is None:
                self._ended.set()
            raise

    @property
    def is_running(self) -> bool:
        """Whether a write that was started has not ended."""
        return not self._ended.is_set()

    def wait(self) -> None:
        """Wait for the write that was started.

        **Raises:** what it raised, once.
        """
        self._ended.wait()
        _raise_first(self._errors)

    def _run(self, write: Callable[[], None]) -> None:
        with self._one_at_a_time:
            try:
                write()
            except BaseException as error:
                self._errors.append(error)
            finally:
                self._ended.set()


def _raise_first(errors: list[BaseException]) -> None:
    if errors:
        raise errors.pop(0)
