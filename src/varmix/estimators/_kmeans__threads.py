"""Threads: small matrix products are faster in one."""

from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread() -> Any:  # noqa: ANN401
    """Keep BLAS to one thread inside: products of a hundred rows would mostly wait for the others."""
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all libraries that are loaded, so once
