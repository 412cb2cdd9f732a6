"""A thread that writes files while the caller goes on."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from popsim.store.errors import SaveError


class BackgroundWriter:
    """Runs functions that write, in order, in one thread. After one has failed, nothing more is written."""

    def __init__(self, limit: int):
        """**Arguments:**

        - `limit`: how many bytes may wait to be written, before the caller has to wait.
        """
        self._limit = limit
        self._waiting: deque[tuple[int, Future]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="popsim-writer")
        self._error: SaveError | None = None

    def submit(self, n_bytes: int, write: Callable[..., None], *arguments: Any) -> None:
        """Have `write(*arguments)` called.

        **Raises:** `SaveError` if something could not be written before.
        """
        while self._waiting and sum(size for size, _ in self._waiting) + n_bytes > self._limit:
            self._wait_for_first()
        self.raise_error()
        self._waiting.append((n_bytes, self._thread.submit(self._write, write, *arguments)))

    def wait(self) -> None:
        """Wait until everything is written.

        **Raises:** `SaveError` if something could not be written.
        """
        while self._waiting:
            self._wait_for_first()
        self.raise_error()

    def close(self) -> None:
        """Wait until everything is written or has failed, and end the thread."""
        self._thread.shutdown(wait=True)

    def raise_error(self) -> None:
        """**Raises:** `SaveError` if something could not be written."""
        if self._error is not None:
            raise SaveError(self._error.errno, self._error.strerror, self._error.filename) from self._error

    def _wait_for_first(self) -> None:
        self._waiting[0][1].result()
        self._waiting.popleft()

    def _write(self, write: Callable[..., None], *arguments: Any) -> None:
        if self._error is None:
            try:
                write(*arguments)
            except SaveError as error:
                self._error = error
