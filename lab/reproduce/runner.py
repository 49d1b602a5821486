"""Runner: make many runs on a few worker processes, with progress bars. It can be interrupted at any time.

Each worker records a run as soon as it is finished. Workers exit when their parent process ends, even if it is killed:
they watch a pipe that only the parent holds open.
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

# One thread per worker: runs are parallel already, and more threads would distort their times.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
WORKER_SETTINGS = {**ONE_THREAD, "VARMIX_QUIET": "1"}  # the progress bar already says that kernels compile
RECORDED_PACKAGES = ("varmix", "numpy", "numba", "scipy", "scikit-learn", "torch", "gymnasium")


@dataclass(frozen=True)
class Job:
    """A run to make: experiment, configuration and expected duration."""

    experiment: str
    config: Config
    seconds: float


@dataclass(frozen=True)
class Failure:
    """A run that failed: the job, the error message, and the file with the traceback."""

    job: Job
    message: str
    path: Path


class WorkerError(RuntimeError):
    """A worker process died without a message, most likely because it ran out of memory."""


def perform_jobs(jobs: Sequence[Job], out: Path, workers: int, console: Console) -> list[Failure]:
    """Make all runs, record each one, and return those that failed; a failure does not stop the others."""
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
    """Put one run of every experiment first; otherwise all workers would compile the same kernels at once."""
    first: dict[str, Job] = {}
    for job in jobs:
        first.setdefault(job.experiment, job)
    return [*first.values(), *(job for job in jobs if job is not first[job.experiment])]


def error_file(out: Path, job: Job) -> Path:
    """Return the file for the traceback of a failed run."""
    return out / "errors" / job.experiment / Records(out).path(job.experiment, job.config).with_suffix(".txt").name


def list_versions() -> dict[str, str]:
    """Return the versions of the installed packages that results may depend on."""
    found = {}
    for name in RECORDED_PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _perform_job(job: Job, out: Path) -> str | None:
    """Make a run and record it; return None, or the error message if the run fails.

    An error while writing the record is not caught: the run is not at fault, and the command ends.
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
    """Yield a pool of workers. They have exited when the block ends, also after an error or Ctrl-C."""
    os.environ.update({name: value for name, value in WORKER_SETTINGS.items() if name not in os.environ})
    context = get_context("spawn")  # forking a process that has threads may hang
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
    """Delay Ctrl-C until the block ends, and keep it away from workers started inside the block.

    Workers inherit the signals that this thread blocks. Other threads of this process could still receive Ctrl-C, so
    there is a handler as well.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    resource_tracker.ensure_running()  # its later start would unblock Ctrl-C
    handler = signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    blocks = hasattr(signal, "pthread_sigmask")  # not on Windows
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if blocks else None
    try:
        yield
    finally:
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    if received:
        raise KeyboardInterrupt


def _follow_parent(watched: Connection) -> None:
    """Ignore Ctrl-C, and exit this worker when its parent closes the other end of the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def wait() -> None:
        watched.poll(None)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def _show_bars(jobs: Sequence[Job], console: Console) -> Iterator[list["_Bar"]]:
    """Show one progress bar per experiment until the block ends. Runs count by their expected duration."""
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
    """Progress bar of an experiment. It pulses while kernels compile, and fills once a run is finished."""

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
