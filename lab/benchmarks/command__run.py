"""Run: benchmarks one by one, each written as soon as it is done."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from lab.benchmarks.command__catalogue import benchmark
from lab.benchmarks.command__catalogue import names
from lab.benchmarks.command import write
from lab.benchmarks.timing import machine
from lab.refusal import cannot_write
from lab.refusal import make_writable


def perform(asked: Sequence[str], out: Path, console: Console) -> int:
    """Make the benchmarks that were asked for, all if none; give the exit code.

    The console should print lines as they are: without markup, colours for numbers, or wrapping.
    """
    chosen = list(dict.fromkeys(asked or names()))
    for name in chosen:
        benchmark(name)
    make_writable(out)
    done = 0
    try:
        for name in chosen:
            path = _one(name, out, console)
            done += 1
            console.print(f"Written to {path}")
    except KeyboardInterrupt:
        left = " ".join(chosen[done:])
        console.print(
            f"Stopped: {done} of {len(chosen)} benchmarks are saved. Go on with: varmix bench {left} --out {out}"
        )
        return 130
    return 0


def _one(name: str, out: Path, console: Console) -> Path:
    chosen = benchmark(name)
    described = machine(chosen.peers)
    console.print(f"{name}: {chosen.title} ({', '.join(f'{what} {value}' for what, value in described.items())})")
    for peer in chosen.peers:
        if not peer.present:
            console.print(peer.absence)
    results = chosen.measure(console)
    try:
        return write(out, name, {"machine": described, **results})
    except OSError as error:
        raise cannot_write(out, error) from None
