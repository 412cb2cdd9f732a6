"""Networks by name, for experiments and the command line."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Array, Key

from popsim._shared.checks import short_repr
from popsim._shared.text_checks import suggestion
from popsim.networks.base import AbstractNetwork

__all__ = ["NETWORKS", "register_network", "build_network"]

Build = Callable[..., AbstractNetwork]
BuildType = TypeVar("BuildType", bound=Build)

OPTIONS = ("dt", "tau", "noise_std", "output_fn", "output_bias")
"""The keyword arguments that a function which builds a network may take, besides `key`."""

NETWORKS: dict[str, Build] = {}
"""What builds each network, by name; the rows are beside the classes."""


def register_leaky(name: str, kind: Build, text: str) -> None:
    """Register a leaky network with the time constant of experiments and a text for `popsim list`."""

    def build(*sizes: int, tau=0.1, dt, noise_std=0.0, output_fn=None, output_bias=0.0, key):
        readout = {"output_fn": output_fn, "output_bias": output_bias}
        return kind(*sizes, tau=tau, dt=dt, noise_std=noise_std, **readout, key=key)

    build.__doc__ = text
    register_network(name)(build)


def register_network(name: str) -> Callable[[BuildType], BuildType]:
    """Register a network by name for experiments and the command line; a decorator.

    It decorates a function, or a class, that is called as `build(n_inputs, n_units, n_outputs, *, key)`.
    Further keyword arguments that it has get what the experiment sets: `dt` (s), `tau` (s), `noise_std` (of
    the units), and for muscles `output_fn` and `output_bias`; see `GRUNetwork`. All but `dt` need defaults.
    The first line of its docstring is shown by `popsim list`.

    **Arguments:**

    - `name`: the name, such as "two-areas".
    """

    def register(build: BuildType) -> BuildType:
        if NETWORKS.setdefault(name, build) is not build:
            raise ValueError(f"`name` of a network must be one that no other has, got {name!r} again.")
        return build

    return register


def check_network_name(name: Any) -> None:
    """Raise `ValueError` unless a network is registered by this name."""
    if not isinstance(name, str) or name not in NETWORKS:
        raise ValueError(
            f"`network` must be one of {', '.join(NETWORKS)}, got {name!r}.{suggestion(str(name), NETWORKS)} "
            "To add one, call popsim.networks.register_network in a module; the command line imports it by "
            "popsim --import MODULE ..."
        )


def options_of_network(name: str) -> Mapping[str, Any]:
    """Return the options that a network takes, each with its default or None."""
    parameters = inspect.signature(NETWORKS[name]).parameters
    empty = inspect.Parameter.empty
    return {
        option: None if parameters[option].default is empty else parameters[option].default
        for option in OPTIONS
        if option in parameters
    }


def build_network(
    name: str, n_inputs: int, n_units: int, n_outputs: int, *, dt: float, key: Key[Array, ""], **options: Any
) -> AbstractNetwork:
    """Build a network by its registered name.

    **Arguments:**

    - `name`: the name, one of `NETWORKS`.
    - `n_inputs`, `n_units`, `n_outputs`: the sizes.
    - `dt`: the time step in seconds, for a network that has one in its equation.
    - `key`: for the initial weights.
    - `options`: any of `tau`, `noise_std`, `output_fn` and `output_bias`; noise of zero needs no option.
    """
    check_network_name(name)
    accepted = options_of_network(name)
    for option, value in options.items():
        if option not in accepted and not (option == "noise_std" and not np.any(value)):
            raise ValueError(
                f"`network` must be one that takes `{option}`, which is set to {short_repr(value)} here, "
                f"got {name!r}, which takes {', '.join(accepted) or 'no options'}."
            )
    arguments = {option: value for option, value in {"dt": dt, **options}.items() if option in accepted}
    return NETWORKS[name](n_inputs, n_units, n_outputs, key=key, **arguments)


def modules_of_networks(names: Iterable[Any]) -> list[str]:
    """Return the modules outside popsim that define registered networks, each once."""
    modules = [NETWORKS[name].__module__ for name in names if isinstance(name, str) and name in NETWORKS]
    return list(dict.fromkeys(module for module in modules if not module.startswith("popsim.")))
