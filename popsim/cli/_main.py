"""The command `popsim`."""

import contextlib
import dataclasses
import errno
import importlib
import io
import os
import re
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn, Union

import tyro

from popsim._text_checks import check_path, check_text, one_line, printable, suggestion
from popsim._waiting import waiting_line
from popsim.cli._commands import (
    Animate,
    Compare,
    Export,
    Info,
    Init,
    List,
    Resume,
    Show,
    ShowTask,
    Sweep,
    Train,
)
from popsim.cli._messages import modules_of, notes_of, summarize_error_box, use_option_names
from popsim.version import __version__

COMMANDS = {
    "train": Train,
    "sweep": Sweep,
    "resume": Resume,
    "info": Info,
    "show": Show,
    "compare": Compare,
    "show-task": ShowTask,
    "animate": Animate,
    "export": Export,
    "init": Init,
    "list": List,
}
IMPORT = (
    "popsim --import MODULE COMMAND ... first imports a module of yours, with its experiments. "
    "popsim --completion bash prints a script with which bash completes commands; also zsh."
)
LIBRARIES = {"diffrax", "equinox", "jax", "jaxtyping", "lineax", "matplotlib", "numpy", "optax"}
LIBRARIES |= {"optimistix", "safetensors", "tensorstore", "tqdm", "tyro", "xarray"}
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG)
UNREADABLE = (errno.EACCES, errno.EPERM, *_NOT_THERE)
PIPE_CLOSED = 141  # the exit status that shells report for SIGPIPE


class _Unfailing(io.FileIO):
    """Standard error that discards what cannot be written, without raising."""

    def write(self, text: Any, /) -> int:
        try:
            return super().write(text)
        except OSError:
            return len(text)


def run_command(arguments: Sequence[str] | None = None) -> None:
    """Run a command, as `popsim.cli.main` says."""
    if "jax" not in sys.modules:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # errors are raised; XLA's lines are not for users
    formatted = warnings.formatwarning
    warnings.formatwarning = _format_warning
    if sys.stderr is None or sys.stderr is sys.__stderr__:
        sys.stderr = _unfailing_error()
    try:
        try:
            _run(sys.argv[1:] if arguments is None else arguments, is_process=arguments is None)
        finally:
            print(end="", flush=True)
    except BrokenPipeError:
        _leave_output()
        sys.exit(PIPE_CLOSED)
    except OSError as error:
        try:
            print(end="", flush=True)
        except OSError:
            _leave_output()
            _complain(f"standard output could not be written: {error.strerror}", 1)
        _complain(str(error), 2 if error.errno in UNREADABLE else 1)
    finally:
        warnings.formatwarning = formatted


def _unfailing_error() -> io.TextIOWrapper:
    descriptor = os.open(os.devnull, os.O_WRONLY) if sys.__stderr__ is None else sys.__stderr__.fileno()
    raw = io.BufferedWriter(_Unfailing(descriptor, "w", closefd=False))
    return io.TextIOWrapper(raw, errors="backslashreplace", line_buffering=True)


def _leave_output() -> None:
    """Redirect standard output to nowhere, as Python flushes it once more at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _complain(text: str, code: int) -> NoReturn:
    """Exit with one line on standard error, without control characters."""
    print(end="", flush=True)  # a failure of standard output takes precedence over this message
    print(f"popsim: error: {printable(one_line(text))}", file=sys.stderr)
    sys.exit(code)


def _format_warning(message: Warning | str, category: type, filename: str, *_: Any) -> str:
    """Format a warning as one line; drop those of libraries when popsim, not the user's code, calls them."""
    names = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_stack(sys._getframe(1)))
    packages = [name.partition(".")[0] for name in names]
    callers = [package for package in packages if package not in sys.stdlib_module_names]
    user_packages = [package for package in callers if package not in LIBRARIES]
    if (
        callers[:1] != user_packages[:1]
        and user_packages[:1] in ([], ["popsim"])
        and not issubclass(category, RuntimeWarning)
    ):
        return ""
    return f"popsim: warning: {one_line(message)}\n"


def _run(arguments: Sequence[str], *, is_process: bool) -> None:
    command: Any = None
    try:
        _check_words(arguments)
        modules, words = _split_imports(list(arguments))
        if words[:1] == ["--version"]:
            print(f"popsim {__version__}")
            sys.exit()
        _pass_over_settings_here()
        with waiting_line("loading JAX"):
            if is_process and words[:1] == ["list"]:  # it, and what it imports, need no other device
                importlib.import_module("jax").config.update("jax_platforms", "cpu")
            for module in modules:
                _import(module)
            completion = _completion(words)
            command, prog, settings = (None, "", []) if completion else _command(words)
        if completion:
            print(completion, end="")
            sys.exit()
        parsed = _parse(command, prog, settings)
        _check_paths(parsed)
        with waiting_line("loading JAX"):
            importlib.import_module("popsim.experiments")
        with contextlib.suppress(AttributeError, KeyError):  # a later JAX, whose options have other names
            from popsim.cli._compilation_cache import keep_programs

            keep_programs()
        parsed.run()
    except Exception as error:
        complaint = _complaint(error, command)
        if complaint is None:
            raise
        _complain(*complaint)


def _complaint(error: Exception, command: Any) -> tuple[str, int] | None:
    """Return one line and the exit code for an error; None for a bug, or what `run_command` answers."""
    if isinstance(error, ValueError | ImportError) and _is_ours(error):
        return use_option_names(str(error), command), 2
    if isinstance(error, MemoryError):
        text = str(error) or "there must be enough memory: there is none left."
        return " ".join([text, *notes_of(error)]), 1
    if isinstance(error, OSError):
        from popsim.store import SaveError

        return (str(error), 1) if isinstance(error, SaveError) else None
    if isinstance(error, ValueError) and modules_of(error)[-1:] == ["jax._src.config"]:
        return f"the variables of JAX must have values that it knows: {error}.", 2
    if "jax" not in sys.modules:
        return None
    from popsim.cli._backend import backend_complaint

    if (complaint := backend_complaint(error)) is not None or not isinstance(error, RuntimeError):
        return complaint
    from popsim.sweeps import CellsFailed

    if not isinstance(error, CellsFailed):
        return None
    cause = backend_complaint(error.__cause__) if isinstance(error.__cause__, Exception) else None
    return (str(error) if cause is None else f"{error} {cause[0].partition(': ')[0]}."), 1


def _is_ours(error: Exception) -> bool:
    """Whether popsim itself raised an error about its input; all others are bugs."""
    return modules_of(error)[-1].startswith("popsim.")


def _pass_over_settings_here() -> None:
    """Keep matplotlib from reading the current folder's settings, which name programs that it starts.

    The folder may be a run that another person made.
    """
    if "matplotlib" not in sys.modules and os.path.exists("matplotlibrc"):
        with contextlib.chdir(Path(__file__).parent):
            importlib.import_module("matplotlib")
        warnings.warn(
            "matplotlibrc in this folder is not read; if it is yours, put it where matplotlib reads those of "
            "a user, such as ~/.config/matplotlib.",
            stacklevel=2,
        )


def _check_words(arguments: Sequence[str]) -> None:
    """Raise `ValueError` naming a word that is empty or has control characters."""
    option = ""  # after which the value stands as a word of its own
    for place, argument in enumerate(arguments):  # checked as text, because `Path` turns "" into "."
        name, _, value = argument.rpartition("=") if argument.startswith("-") else ("", "", argument)
        if not value:
            words = " ".join(("popsim", *arguments[:place]))
            where = f"`{name or option}`" if name or option else f"the word after `{words}`"
            raise ValueError(f"{where} must have a value, got an empty one.")
        check_text(name or option or "path", value)
        option = argument if argument.startswith("-") and "=" not in argument else ""


def _split_imports(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return the modules to import, and the arguments after them."""
    modules = []
    while arguments and arguments[0].partition("=")[0] == "--import":
        _, joined, module = arguments[0].partition("=")
        modules.append(module if joined else "".join(arguments[1:2]))
        arguments = arguments[1 if joined else 2 :]
    return modules, arguments


def _completion(words: list[str]) -> str:
    """Return the script that `--completion` asks for; empty if it is not asked for."""
    if words[:1] != ["--completion"]:
        return ""
    from popsim.cli._completion import completion_script

    return completion_script("".join(words[1:2]), COMMANDS)


def _command(arguments: list[str]) -> tuple[Any, str, list[str]]:
    """Return the command to parse, the words that name it, and the remaining arguments."""
    match arguments:
        case ["train", *settings]:
            return _train_command(settings)
        case ["sweep", *settings]:
            return _sweep_command(settings)
        case [name, *settings] if name in COMMANDS:
            return COMMANDS[name], f"popsim {name}", settings
        case [name, *_] if name not in ("-h", "--help"):
            choices = (*COMMANDS, "--import", "--version", "--completion", "--help")
            raise ValueError(
                f"the command must be one of {', '.join(COMMANDS)}, got {name!r}."
                f"{suggestion(name, choices)} See popsim --help."
            )
    kinds = tuple(Annotated[kind, tyro.conf.subcommand(name)] for name, kind in COMMANDS.items())
    return Union[kinds], "popsim", arguments  # noqa: UP007


def _train_command(settings: list[str]) -> tuple[Any, str, list[str]]:
    """Return the command that trains the experiment in the first setting, or the choice of one."""
    from popsim.cli._train import config_command, experiment_choice, train_command
    from popsim.experiments import EXPERIMENTS
    from popsim.experiments.registry import advice_on_name

    config, further = _split_config(settings)
    if config is not None:
        return config_command(config, further)
    match settings:
        case [name, *further] if name in EXPERIMENTS:
            return train_command(EXPERIMENTS[name]), f"popsim train {name}", further
        case [name, *_] if not name.startswith("-"):
            raise ValueError(f"EXPERIMENT must be known, got {name!r}: {advice_on_name(name)}")
    return experiment_choice(Train.__doc__), "popsim train", settings


def _split_config(settings: list[str]) -> tuple[str | None, list[str]]:
    """Return the file after --config, if it is there, and the other words."""
    for place, word in enumerate(settings):
        option, joined, value = word.partition("=")
        if option != "--config":
            continue
        file = value if joined else "".join(settings[place + 1 : place + 2])
        if not file:
            raise ValueError("--config must be followed by a file.")
        return file, settings[:place] + settings[place + (1 if joined else 2) :]
    return None, settings


def _sweep_command(settings: list[str]) -> tuple[Any, str, list[str]]:
    """Return the command on sweeps that the first setting names, or the choice of one."""
    from popsim.cli._sweep import VERBS, SweepConfig, sweep_choice, sweep_command
    from popsim.experiments import EXPERIMENTS
    from popsim.experiments.registry import advice_on_name

    match settings:
        case [name, *further] if name in VERBS:
            return VERBS[name], f"popsim sweep {name}", further
        case [name, *further] if name in EXPERIMENTS:
            return sweep_command(EXPERIMENTS[name]), f"popsim sweep {name}", further
    if any(word.partition("=")[0] == "--config" for word in settings):
        return SweepConfig, "popsim sweep", settings
    if settings and not settings[0].startswith("-"):
        names = [*EXPERIMENTS, *VERBS]
        raise ValueError(
            f"EXPERIMENT must be known, got {settings[0]!r}: {advice_on_name(settings[0], names)}"
        )
    return sweep_choice(Sweep.__doc__), "popsim sweep", settings


def _import(name: str) -> None:
    """Import a user's module, which may register experiments, also from the current folder."""
    if not all(part.isidentifier() for part in name.split(".")):
        raise ValueError(
            f"--import must be followed by the name of a module, such as my_module, got {name!r}."
        )
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise ValueError(f"--import must name a module that can be found, got {name!r}: {error}.") from None


def _check_paths(command: Any) -> None:
    """Check all paths among the arguments of a command, before it looks at one of them."""
    for field in dataclasses.fields(command):
        value = getattr(command, field.name)
        for path in value if isinstance(value, tuple) else (value,):
            if isinstance(path, Path):
                check_path(field.name, path)


def _parse(command: Any, prog: str, settings: list[str]) -> Any:
    of_tyro = [word for word in settings if word.replace("_", "-").startswith("--tyro-")]
    if of_tyro:  # these write scripts, to any file
        raise ValueError(f"Unrecognized options: {of_tyro[0]}. See {prog} --help.")
    complaint = io.StringIO()
    description = IMPORT if prog == "popsim" else None
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(
                command,
                prog=prog,
                description=description,
                args=settings,
                config=(tyro.conf.OmitArgPrefixes,),
            )
    except SystemExit as end:
        if end.code:
            text = summarize_error_box(complaint.getvalue())
            raise ValueError(f"{text}{_advice_on_options(text, prog)} See {prog} --help.") from None
        raise


def _advice_on_options(complaint: str, prog: str) -> str:
    """Return a sentence on options that tyro does not know because an experiment has no body."""
    *verb, name = prog.split()
    if not complaint.startswith("Unrecognized options: ") or verb not in (
        ["popsim", "train"],
        ["popsim", "sweep"],
    ):
        return ""
    from popsim.experiments import EXPERIMENTS
    from popsim.experiments.registry import advice_on_body

    options = re.findall(r"--([\w-]+)", complaint) if name in EXPERIMENTS else []
    return next(filter(None, (advice_on_body(EXPERIMENTS[name], option) for option in options)), "")
