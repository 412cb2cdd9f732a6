"""The command `popsim`: its words, and what it says of errors, in one line and with an exit code."""

import contextlib
import dataclasses
import errno
import importlib
import io
import os
import re
import sys
import traceback
import typing
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn, Union

import tyro

from popsim._shared.text_checks import is_utf8, one_line, printable, shorten, suggestion
from popsim._shared.waiting import waiting_line
from popsim.cli._commands import COMMANDS
from popsim.version import __version__

IMPORT = (
    "popsim --import MODULE COMMAND ... first imports a module of yours, with its experiments. "
    "popsim --completion bash prints a script with which bash completes commands; also zsh."
)
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG)
UNREADABLE = (errno.EACCES, errno.EPERM, *_NOT_THERE)
PIPE_CLOSED = 141  # the exit status that shells report for SIGPIPE
SHELLS = ("bash", "zsh")  # of which tyro writes scripts without another package
ALSO_CALLED = {"runs": ("paths",), "axes": ("grid",), "path": ("paths", "out")}
"""Argument names in popsim's functions for options that have another name in a command."""
MOST_LETTERS = 400  # of a message of XLA


def run_command(arguments: Sequence[str] | None = None) -> None:
    """Run a command, as `popsim.cli.main` says."""
    if "jax" not in sys.modules:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # errors are raised; XLA's lines are not for users
    formatted, warnings.formatwarning = warnings.formatwarning, _format_warning
    if sys.stderr is None:  # it was closed before the start
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
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


def _leave_output() -> None:
    with open(os.devnull, "w") as nowhere:  # as Python flushes standard output once more at exit
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _complain(text: str, code: int) -> NoReturn:
    """Exit with one line on standard error, without control characters."""
    print(end="", flush=True)  # a failure of standard output takes precedence over this message
    print(f"popsim: error: {printable(one_line(text))}", file=sys.stderr)
    sys.exit(code)


def _format_warning(message: Warning | str, *_: Any) -> str:
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
            if words[:1] == ["--completion"]:
                print(completion_script("".join(words[1:2])), end="")
                sys.exit()
            command, prog, settings = _command(words)
        parsed = _parse(command, prog, settings)
        with waiting_line("loading JAX"):
            importlib.import_module("popsim.experiments.registry")
        with contextlib.suppress(AttributeError, KeyError):  # a later JAX, whose options have other names
            from popsim.cli._devices import keep_programs

            keep_programs()
        parsed.run()
    except Exception as error:
        complaint = _complaint(error, command)
        if complaint is None:
            raise
        _complain(*complaint)


def _complaint(error: Exception, command: Any) -> tuple[str, int] | None:
    """Return one line and the exit code for an error; None for a bug, or what `run_command` answers."""
    if isinstance(error, ValueError | ImportError) and modules_of(error)[-1].startswith("popsim."):
        return use_option_names(str(error), command), 2  # raised by popsim itself: the input is wrong
    if isinstance(error, MemoryError):
        return f"{str(error) or 'there must be enough memory: there is none left.'} {notes_of(error)}", 1
    if isinstance(error, ValueError) and modules_of(error)[-1:] == ["jax._src.config"]:
        return f"the variables of JAX must have values that it knows: {error}.", 2
    if isinstance(error, OSError) or "jax" not in sys.modules:
        return None
    complaint = backend_complaint(error)
    if complaint is None and isinstance(error, RuntimeError):
        from popsim.sweeps import CellsFailed

        if isinstance(error, CellsFailed):
            cause = backend_complaint(error.__cause__) if isinstance(error.__cause__, Exception) else None
            return (str(error) if cause is None else f"{error} {cause[0].partition(': ')[0]}."), 1
    return complaint


def text_in_box(box: str) -> str:
    """Return what tyro says in a box, without its frame and its advice; for misspelt options similar ones."""
    lines = "\n".join(line.strip("│╭╮╰╯ ") for line in box.splitlines()[1:])
    text, *further = [part for part in re.split(r"^[─-]{4,}$", lines, flags=re.MULTILINE) if part.strip()]
    alike = dict.fromkeys(re.findall(r"^(--[\w-]+)", "\n".join(further[:-1]), re.MULTILINE))
    hint = f" Perhaps you meant {' or '.join(alike)}." if alike and "Unrecognized" in text else ""
    return f"{one_line(text).rstrip('.')}.{hint}"


def use_option_names(message: str, command: object) -> str:
    """Replace argument names in a message, such as `n_members`, by options of a command: --members."""
    options = dict(_options(command)) if isinstance(command, type) else {}
    for name, fields in ALSO_CALLED.items():
        for field in fields:
            if field in options:
                options.setdefault(name, options[field])
    message = re.sub(r"`(\w+)(?:\[\d+\])*`", lambda named: options.get(named[1], named[0]), message)
    return re.sub(r"`(--[\w-]+)`", r"\1", message)


def _options(command: type) -> Iterator[tuple[str, str]]:
    """Yield the fields of a command, or of the experiment that it trains, with their options."""
    hints = typing.get_type_hints(command, include_extras=True)
    for name in (field.name for field in dataclasses.fields(command)):
        hint = hints[name]
        kind, marks = getattr(hint, "__origin__", hint), getattr(hint, "__metadata__", ())
        metavars, names = ([getattr(mark, part, None) for mark in marks] for part in ("metavar", "name"))
        if dataclasses.is_dataclass(kind):
            yield from _options(typing.cast(type, kind))
        elif tyro.conf.Positional in marks:
            yield name, next(filter(None, metavars), name.upper()).split()[0]
        else:
            yield name, f"--{next(filter(None, names), name).replace('_', '-')}"


def modules_of(error: BaseException) -> list[str]:
    """Return the modules through which an error came, the innermost last."""
    return [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]


def notes_of(error: BaseException) -> str:
    """Return what popsim added to an error: what is saved, and how to continue."""
    notes = (note for note in getattr(error, "__notes__", ()) if isinstance(note, str))
    return " ".join(note for note in notes if "JAX has removed its internal" not in note and note.strip("-"))


def backend_complaint(error: Exception) -> tuple[str, int] | None:
    """Return one line and the exit code for an error of JAX's backend or variables; None for any other.

    The code is 1 if memory or the device fail, and 2 if a variable of the environment is wrong.
    """
    import jax

    text, _, _ = str(error).partition("\n--------------------")  # what JAX says of its traceback
    text, notes = shorten(one_line(text).rstrip("."), MOST_LETTERS), notes_of(error)
    if isinstance(error, jax.errors.JaxRuntimeError):
        if "RESOURCE_EXHAUSTED" in text or "Out of memory" in text:
            advice = "Fewer trials or members at a time (--batch-size, --members) take less."
            return f"there must be enough memory on the device: {text}. {advice} {notes}", 1
        if "Disallowed" in text and "transfer" in text:
            return f"JAX_TRANSFER_GUARD must let popsim copy arrays; unset it: {text}. {notes}", 2
        return f"JAX's backend failed: {text}. {notes}", 1
    # JAX may have removed its own frames, of which the backend's is one
    in_jax = any(module.partition(".")[0] == "jax" for module in modules_of(error)[-1:])
    if not isinstance(error, RuntimeError | AssertionError) or not in_jax:
        return None
    with contextlib.suppress(RuntimeError, AssertionError):
        if jax.devices():
            return None
    platforms = jax.config.values.get("jax_platforms") or os.environ.get("JAX_PLATFORMS")
    which = f"JAX_PLATFORMS must name devices that JAX finds, got {platforms!r}; unset it"
    what = which if platforms else "JAX must find a device"
    return f"{what}: {text}. JAX_PLATFORMS=cpu uses the processor.", 2


def _pass_over_settings_here() -> None:
    """Keep matplotlib from reading the current folder's settings, which name programs that it starts.

    The folder may be a run that another person made.
    """
    if "matplotlib" not in sys.modules and os.path.exists("matplotlibrc"):
        with contextlib.chdir(Path(__file__).parent):
            importlib.import_module("matplotlib")
        warnings.warn("matplotlibrc in this folder is not read: put it where a user has those.", stacklevel=2)


def _check_words(arguments: Sequence[str]) -> None:
    """Raise `ValueError` naming a word that is empty, which `Path` turns into ".", or is not UTF-8."""
    for place, argument in enumerate(arguments):
        has_value = argument.startswith("-") and "=" in argument
        option, joined, value = argument.partition("=") if has_value else ("", "", argument)
        words = " ".join(["popsim", *arguments[:place], option + joined]).strip()
        if not value:
            raise ValueError(f"there must be a value after `{words}`, got an empty one.")
        if not is_utf8(value):
            raise ValueError(f"what follows `{words}` must be in UTF-8, got {value!r}.")


def _split_imports(arguments: list[str]) -> tuple[list[str], list[str]]:
    modules = []
    while arguments and arguments[0].partition("=")[0] == "--import":
        module, arguments = _split_option(arguments, 0)
        modules.append(module)
    return modules, arguments


def _split_option(words: list[str], place: int) -> tuple[str, list[str]]:
    """Return the value of an option at a place, after "=" or as the next word, and the other words."""
    _, joined, value = words[place].partition("=")
    value = value if joined else "".join(words[place + 1 : place + 2])
    return value, words[:place] + words[place + (1 if joined else 2) :]


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


def _command(words: list[str]) -> tuple[Any, str, list[str]]:
    """Return the command to parse, the words that name it, and the remaining arguments."""
    match words:
        case ["train" | "sweep" as name, *settings]:
            return _training_command(name, settings)
        case [name, *settings] if name in COMMANDS:
            return COMMANDS[name], f"popsim {name}", settings
        case [name, *_] if name not in ("-h", "--help"):
            choices = (*COMMANDS, "--import", "--version", "--completion", "--help")
            raise ValueError(
                f"the command must be one of {', '.join(COMMANDS)}, got {name!r}."
                f"{suggestion(name, choices)} See popsim --help."
            )
    return _union(COMMANDS), "popsim", words


def _training_command(command: str, settings: list[str]) -> tuple[Any, str, list[str]]:
    """Return the command that trains or sweeps what the first word, or the file after --config, names."""
    word = settings[0] if settings else "--help"
    if word in ("-h", "--help"):
        return COMMANDS[command], f"popsim {command}", settings
    from popsim.cli._devices import use_cores
    from popsim.cli._train import VERBS, SweepConfig, config_command, sweep_command, train_command
    from popsim.experiments.registry import EXPERIMENTS, advice_on_name

    use_cores()  # tasks make arrays as their settings are read
    verbs, make = (VERBS, sweep_command) if command == "sweep" else ({}, train_command)
    if word in verbs:
        return verbs[word], f"popsim sweep {word}", settings[1:]
    configs = [place for place, own in enumerate(settings) if own.partition("=")[0] == "--config"]
    if configs and command == "train":
        return config_command(*_split_option(settings, configs[0]))
    if word in EXPERIMENTS:
        return make(EXPERIMENTS[word]), f"popsim {command} {word}", settings[1:]
    if configs:
        return SweepConfig, "popsim sweep", settings
    if not word.startswith("-"):
        names = [*EXPERIMENTS, *verbs]
        raise ValueError(f"EXPERIMENT must be known, got {word!r}: {advice_on_name(word, names)}")
    return COMMANDS[command], f"popsim {command}", settings


def _parse(command: Any, prog: str, settings: list[str]) -> Any:
    of_tyro = [word for word in settings if word.replace("_", "-").startswith("--tyro-")]
    if of_tyro:  # these write scripts, to any file
        raise ValueError(f"Unrecognized options: {of_tyro[0]}. See {prog} --help.")
    about, complaint = IMPORT if prog == "popsim" else None, io.StringIO()
    config = (tyro.conf.OmitArgPrefixes,)
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(command, prog=prog, description=about, args=settings, config=config)
    except SystemExit as end:
        if not end.code:
            raise
        raise ValueError(f"{text_in_box(complaint.getvalue())} See {prog} --help.") from None


def completion_script(shell: str) -> str:
    """Return the script of a shell, "bash" or "zsh", which knows commands, experiments and their options."""
    if shell not in SHELLS:
        raise ValueError(f"--completion must be followed by {', '.join(SHELLS)}, got {shell!r}.")
    from popsim.cli._train import VERBS, sweep_command, train_command
    from popsim.experiments.registry import EXPERIMENTS

    kinds: dict[str, Any] = dict(COMMANDS)
    for name, make, verbs in (("train", train_command, {}), ("sweep", sweep_command, VERBS)):
        named = _union({experiment: make(kind) for experiment, kind in EXPERIMENTS.items()} | verbs)
        kinds[name] = dataclasses.make_dataclass(name.capitalize(), [("named", named)])
    words = ["--tyro-print-completion", shell]
    config = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes)
    with contextlib.redirect_stdout(io.StringIO()) as script, contextlib.suppress(SystemExit):
        tyro.cli(_union(kinds), prog="popsim", args=words, config=config)
    return script.getvalue()


def _union(kinds: Mapping[str, type]) -> Any:
    return Union[tuple(Annotated[kind, tyro.conf.subcommand(name)] for name, kind in kinds.items())]  # noqa: UP007
