"""Settings: what only a constructor takes, and nobody can change later."""

from collections.abc import Callable
from inspect import signature
from typing import Any, ClassVar


class FrozenSettings:
    """Refuses to set an attribute that nothing would look at any more, as PyTorch's `DataLoader` does.

    Those are the arguments of the constructor, and of another one that it hands them on to, and every public attribute
    that is there when the constructor ends.
    """

    _constructors: ClassVar[tuple[Callable[..., Any], ...]] = ()
    _attributes: frozenset[str] | None = None  # while it is being built

    def __init_subclass__(cls, also: Callable[..., Any] | None = None) -> None:
        super().__init_subclass__()
        cls._constructors = (cls.__init__,) if also is None else (cls.__init__, also)

    def _settle_down(self) -> None:
        """End the constructor: from now on what is there stays."""
        self._attributes = frozenset(vars(self))

    def __setattr__(self, name: str, value: object) -> None:
        if self._attributes is not None and not name.startswith("_"):
            owner = type(self).__name__
            if name in self._attributes or any(name in signature(each).parameters for each in self._constructors):
                raise ValueError(f"{name} cannot be set after the {owner} was built. Build a new {owner} with it.")
            if isinstance(getattr(type(self), name, None), property):
                setter = f"set_{name}"
                hint = f" Call {setter}." if hasattr(self, setter) else ""
                raise AttributeError(f"{name} of the {owner} says how things are, and cannot be set.{hint}")
        super().__setattr__(name, value)
