"""All search spaces by name, and those of files.

A space of your own is a JSON file, see `space_files.py`; or, to have a name, a module and a line
here.
"""

import functools

from examples.nas_search import mobile_search_space_v3
from examples.nas_search.spaces import (
    cifar10_search_space,
    digits_search_space,
    mnist_search_space,
    pulses_search_space,
    space_files,
)

_SPACES = {
    ssd: functools.partial(mobile_search_space_v3.get_search_space_spec, ssd)
    for ssd in mobile_search_space_v3.ALL_SSDS
}
_SPACES[digits_search_space.DIGITS_SEARCH] = digits_search_space.get_search_space_spec
_SPACES[mnist_search_space.MNIST_SEARCH] = mnist_search_space.get_search_space_spec
_SPACES[pulses_search_space.PULSES_SEARCH] = pulses_search_space.get_search_space_spec
_SPACES[cifar10_search_space.CIFAR10_SEARCH] = cifar10_search_space.get_search_space_spec
_SPACES[cifar10_search_space.CIFAR10_MOBILENET_V2] = cifar10_search_space.get_mobilenet_v2_spec
_SPACES[cifar10_search_space.CIFAR10_PROXYLESSNAS] = cifar10_search_space.get_proxylessnas_spec

ALL_SSDS = tuple(_SPACES)


def get_search_space_spec(ssd):
    """Returns a space.

    Args:
        ssd: Its name, one of `ALL_SSDS`; or the path of a file that ends in `.json`, or the
            identity of a space of a file that was read, see `space_files.py`.

    Returns:
        A `ConvTowerSpec`.

    Raises:
        ValueError: If there is no such space; a `SettingsError` if a file holds none.
    """
    if space_files.is_file(ssd):
        return space_files.space_of(space_files.read(ssd))
    if space_files.has_identity(ssd):
        return space_files.space_of(ssd)
    if ssd not in _SPACES:
        raise ValueError(
            f"`ssd` must be one of {list(ALL_SSDS)}, but is {ssd!r}. Pass the file of a space of "
            "your own, which ends in .json; or give a new space its line in "
            "spaces/search_spaces.py."
        )
    return _SPACES[ssd]()
