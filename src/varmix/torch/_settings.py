"""Settings that only a constructor takes."""

from collections.abc import Callable
from inspect import signature
from typing import Any, ClassVar


class FrozenSettings:
    """A base class that raises an error when a setting is assigned after the constructor: it would have no effect.

    Settings are the arguments of the constructor, those of another class that the constructor passes arguments to
    (`other_settings`), and every public attribute that exists when the constructor ends. PyTorch's `DataLoader` does
    the same.
    """

    _constructors: ClassVar[tuple[Callable[..., Any], ...]] = ()
    _attributes: frozenset[str] | None = None  # None while the object is being built

    def __init_subclass__(cls, other_settings: Callable[..., Any] | None = None) -> None:
        super().__init_subclass__()
        cls._constructors = (cls.__init__,) if other_settings is None else (cls.__init__, other_settings)

    def _freeze(self) -> None:
        """End the constructor: public attributes cannot be assigned any more."""
        self._attributes = frozenset(vars(self))

    def __setattr__(self, name: str, value: object) -> None:
        if self._attributes is not None and not name.startswith("_"):
            owner = type(self).__name__
            if name in self._attributes or any(name in signature(each).parameters for each in self._constructors):
                raise ValueError(f"{name} cannot be set after the {owner} was built. Build a new {owner} with it.")
            if isinstance(getattr(type(self), name, None), property):
                setter = f"set_{name}"
                hint = f" Call {setter}." if hasattr(self, setter) else ""
                raise AttributeError(f"{name} of the {owner} is read-only.{hint}")
        super().__setattr__(name, value)
