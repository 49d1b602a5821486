"""Runner: many runs on a few processes, with a bar, that can be stopped at any moment.

Every run is recorded by the process that made it as soon as it is done.  Workers end with the process that started
them, however that one ends: they watch a pipe that only it holds open.
"""

import os
import signal
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from lab.reproduce.catalogue import import_experiment
from lab.reproduce.records import Config, Record, Records

# One thread a worker: runs are the unit of parallel work, and times must mean something.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
WORKER_SETTINGS = {**ONE_THREAD, "VARMIX_QUIET": "1"}  # that kernels compile, the bar says
RECORDED_PACKAGES = ("varmix", "numpy", "numba", "scipy", "scikit-learn", "torch", "gymnasium")


@dataclass(frozen=True)
class Job:
    """A run that is to be made."""

    experiment: str
    config: Config
    seconds: float


@dataclass(frozen=True)
class Failure:
    """A run that raised: which, what, and the file with all of it."""

    job: Job
    message: str
    path: Path


class WorkerError(RuntimeError):
    """A worker process died without a message, most likely because it ran out of memory."""


def perform_jobs(jobs: Sequence[Job], out: Path, workers: int, console: Console) -> list[Failure]:
    """Make all runs and record each; a run that raises is reported and the others go on."""
    failures: list[Failure] = []
    with _show_bars(jobs, console) as shown, _open_pool(min(workers, len(jobs))) as pool:
        try:
            with _hold_interrupts():
                futures: dict[Future[str | None], Job] = {
                    pool.submit(_perform_job, job, out): job for job in one_of_each_first(jobs)
                }
            bars = {bar.name: bar for bar in shown}
            for future in as_completed(futures):
                job = futures[future]
                message = future.result()
                if message is not None:
                    failures.append(Failure(job, message, error_file(out, job)))
                bars[job.experiment].advance(job.seconds)
        except BrokenProcessPool:
            raise WorkerError("A worker process died, most likely because it ran out of memory") from None
    return failures


def one_of_each_first(jobs: Sequence[Job]) -> list[Job]:
    """Put one run of every experiment first: else all workers would compile the same kernels at the same time."""
    first: dict[str, Job] = {}
    for job in jobs:
        first.setdefault(job.experiment, job)
    return [*first.values(), *(job for job in jobs if job is not first[job.experiment])]


def error_file(out: Path, job: Job) -> Path:
    """Give the file that tells how a run failed."""
    return out / "errors" / job.experiment / Records(out).path(job.experiment, job.config).with_suffix(".txt").name


def list_versions() -> dict[str, str]:
    """Give the versions of the packages that results may depend on, as far as they are installed."""
    found = {}
    for name in RECORDED_PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _perform_job(job: Job, out: Path) -> str | None:
    """Make a run and record it; give None, or in a line what went wrong with it.

    What cannot be written is no fault of the run: it is raised, and ends the command.
    """
    wall, cpu = time.perf_counter(), time.process_time()
    path, records = error_file(out, job), Records(out / "records")
    try:
        result = import_experiment(job.experiment).run(job.config)
        spent = time.perf_counter() - wall, time.process_time() - cpu
        text = records.encode(Record(job.experiment, job.config, result, list_versions(), *spent))
    except Exception as error:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{job}\n\n{traceback.format_exc()}")
        return f"{type(error).__name__}: {error}"
    records.write_text(job.experiment, job.config, text)
    path.unlink(missing_ok=True)
    return None


@contextmanager
def _open_pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Give a pool whose workers are gone when the block is left, however it is left."""
    os.environ.update({name: value for name, value in WORKER_SETTINGS.items() if name not in os.environ})
    context = get_context("spawn")  # a fork of a process with threads may hang
    watched, held = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_follow_parent, initargs=(watched,))
    try:
        yield pool
        pool.shutdown(wait=True)
    finally:
        held.close()
        pool.shutdown(wait=True, cancel_futures=True)
        watched.close()


@contextmanager
def _hold_interrupts() -> Iterator[None]:
    """Answer Ctrl-C when the block is left, not inside it; workers that are started inside never hear it.

    They inherit what this thread blocks, while other threads of this process would still let a Ctrl-C through: so there
    is a handler, too.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []
    resource_tracker.ensure_running()  # starting it later would unblock Ctrl-C
    handler = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    blocks = hasattr(signal, "pthread_sigmask")  # not on Windows
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if blocks else None
    try:
        yield
    finally:
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    if heard:
        raise KeyboardInterrupt


def _follow_parent(watched: Connection) -> None:
    """End this worker when the other end of the pipe closes; leave Ctrl-C to the process that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def wait() -> None:
        watched.poll(None)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def _show_bars(jobs: Sequence[Job], console: Console) -> Iterator[list["_Bar"]]:
    """Show a bar per experiment, which fills by the time that runs are expected to take, until the block is left."""
    columns = (
        TextColumn("{task.description:<8}"),
        BarColumn(20),
        TextColumn("{task.fields[doing]:<16}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield [_Bar(name, jobs, progress) for name in dict.fromkeys(job.experiment for job in jobs)]


class _Bar:
    """The bar of an experiment: it moves to and fro while kernels compile, and fills from the first finished run on."""

    def __init__(self, name: str, jobs: Sequence[Job], progress: Progress) -> None:
        self.name = name
        self._progress = progress
        self._seconds = [job.seconds for job in jobs if job.experiment == name]
        self._finished = 0
        self._task = progress.add_task(name, total=None, doing="compiling")

    def advance(self, seconds: float) -> None:
        """Count a finished run."""
        self._finished += 1
        if self._finished == 1:
            self._progress.update(self._task, total=sum(self._seconds))
        runs = f"{self._finished}/{len(self._seconds)} runs"
        self._progress.update(self._task, advance=seconds, doing=runs)
