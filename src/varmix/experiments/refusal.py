"""Refusal: something that cannot be done, told in one line."""


class Refusal(Exception):  # noqa: N818 - not an error of the program
    """What was asked, why it cannot be done, and what to do: the command prints it and ends."""
