"""Messages on errors of JAX's backend: it cannot start, has no memory, or must not copy arrays."""

import os

import jax

from popsim._text_checks import one_line, shorten
from popsim.cli._messages import modules_of, notes_of

MOST_LETTERS = 400  # of a message of XLA


def backend_complaint(error: Exception) -> tuple[str, int] | None:
    """Return one line and the exit code for an error of JAX's backend or variables; None for any other.

    The code is 1 if memory or the device fail, and 2 if a variable of the environment is wrong.
    """
    modules = modules_of(error)
    if isinstance(error, jax.errors.JaxRuntimeError):
        return _of_running(error)
    # JAX may have removed its own frames, of which the backend's is one
    in_jax = any(module.partition(".")[0] == "jax" for module in modules[-1:])
    if isinstance(error, RuntimeError | AssertionError) and in_jax and not _has_device():
        return _of_starting(error), 2
    return None


def _has_device() -> bool:
    try:
        return bool(jax.devices())
    except (RuntimeError, AssertionError):
        return False


def _of_running(error: Exception) -> tuple[str, int]:
    text = _short(error)
    notes = " ".join(notes_of(error))
    if "RESOURCE_EXHAUSTED" in text or "Out of memory" in text:
        advice = "Fewer trials or members at a time (--batch-size, --members) take less."
        return f"there must be enough memory on the device: {text}. {advice} {notes}", 1
    if "Disallowed" in text and "transfer" in text:
        return f"JAX_TRANSFER_GUARD must let popsim copy arrays; unset it: {text}. {notes}", 2
    return f"JAX's backend failed: {text}. {notes}", 1


def _of_starting(error: Exception) -> str:
    platforms = jax.config.values.get("jax_platforms") or os.environ.get("JAX_PLATFORMS")
    advice = "JAX_PLATFORMS=cpu uses the processor."
    if not platforms:
        return f"JAX must find a device: {_short(error)}. {advice}"
    reason = f" {_short(error)}." if str(error) else ""
    return (
        f"JAX_PLATFORMS must name devices that JAX finds, got {platforms!r}.{reason} Unset it, or: {advice}"
    )


def _short(error: Exception) -> str:
    text, _, _ = str(error).partition("\n--------------------")  # what JAX says of its traceback
    return shorten(one_line(text).rstrip("."), MOST_LETTERS)
