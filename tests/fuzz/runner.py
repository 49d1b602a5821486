"""The runner: starts workers, finds the case that killed one, and counts."""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from zlib import crc32

from fuzz.cases import Verdict
from fuzz.catalogue import Job, available, expanded, targets

ROOT = Path(__file__).parents[2]
CHUNK = 1500  # cases of a process
PATIENCE = 30.0  # seconds after which a case is stuck, whether it computes or waits


@dataclass
class Report:
    """What came of the cases of a kind."""

    counts: Counter = field(default_factory=Counter)
    failures: dict = field(default_factory=dict)

    @property
    def cases(self):
        return self.counts.total()

    def add(self, case, verdict):
        """Count a verdict; a failure is kept."""
        self.counts["failed" if verdict.failed else verdict.outcome] += 1
        if verdict.failed:
            self.failures[case] = verdict


def environment():
    """Return the environment of workers: kernels check bounds, and are kept apart from those that do not."""
    files = sorted((ROOT / "src/varmix").rglob("*.py"))
    kernels = b"".join(path.read_bytes() for path in files if "kernels" in str(path.relative_to(ROOT)))
    paths = [str(ROOT / "tests"), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(ROOT / f".cache/numba-fuzz-{crc32(kernels)}"),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "RL_LOGGING_LEVEL": "WARNING",
    }


def run(jobs, seed, patience=PATIENCE):
    """Run jobs in one process, or, where cases kill it, in as many as it takes; yield cases and their verdicts."""
    while jobs:
        events, code, errors = _started(jobs, seed, patience)
        running = None
        for event, *values in events:
            if event == "jobs":
                jobs = [Job.parse(text) for text in values]
            elif event == "case":
                running = values
            elif event == "verdict":
                kind, target, number, *verdict = values
                yield f"{kind}/{target}/{number}", Verdict(*verdict)
        if events and events[-1] == ["end"]:
            return
        if running is None or (code == 1 and "Timeout" not in errors):
            raise RuntimeError(f"The worker itself failed, at {running}:\n{errors}")
        kind, target, number, _ = running
        yield f"{kind}/{target}/{number}", _death(running, code, errors, seed, patience)
        place = next(i for i, job in enumerate(jobs) if (job.kind, job.target) == (kind, target))
        rest = [] if number == "undamaged" else [replace(jobs[place], first=number + 1)]
        jobs = [job for job in rest if job.first < job.last] + jobs[place + 1 :]


def _started(jobs, seed, patience):
    """Run a worker to its end; return what it wrote, its exit code, and the end of what it said."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command = [sys.executable, "-m", "fuzz.worker", str(log), str(seed), str(patience), *map(str, jobs)]
        done = subprocess.run(command, env=environment(), cwd=folder, capture_output=True, text=True, check=False)
        lines = log.read_text().splitlines() if log.exists() else []
    return [json.loads(line) for line in lines], done.returncode, done.stderr[-4000:]


def _death(running, code, errors, seed, patience):
    """Return the verdict of the case that was running when a worker died; run it alone to be sure."""
    kind, target, number, mutation = running
    outcome = f"killed by signal {-code}" if code < 0 else "stuck" if "Timeout" in errors else f"exit with {code}"
    if number == "undamaged":
        return Verdict(outcome, mutation, errors)
    _, again, errors_again = _started([Job(kind, target, number, number + 1)], seed, patience)
    alone = "" if again != 0 else ", but not alone"
    frames = [line.strip() for line in (errors_again or errors).splitlines() if "varmix" in line]
    return Verdict(outcome + alone, mutation, "; ".join(frames[:3]))


def shares(count, kinds=None):
    """Return how many cases each kind gets of so many in all."""
    weights = {kind: sum(target.weight for target in targets(kind).values()) for kind in kinds or available()}
    return {kind: max(1, round(count * weight / sum(weights.values()))) for kind, weight in weights.items()}


def chunks(jobs):
    """Cut jobs into lists of about `CHUNK` cases, for a process each."""
    found, size = [[]], 0
    for job in jobs:
        for first in range(job.first, job.last, CHUNK):
            part = replace(job, first=first, last=min(first + CHUNK, job.last))
            if size and size + part.last - first > CHUNK:
                found.append([])
                size = 0
            found[-1].append(part)
            size += part.last - first
    return found


def fuzz(count, seed, kinds=None, processes=None):
    """Run about so many cases of all kinds; return a report of each."""
    reports = {}
    work = [part for kind, share in shares(count, kinds).items() for part in chunks(expanded(Job(kind, "*", 0, share)))]
    with ThreadPoolExecutor(processes or os.cpu_count()) as pool:
        for part, results in zip(work, pool.map(lambda jobs: list(run(jobs, seed)), work), strict=True):
            report = reports.setdefault(part[0].kind, Report())
            for case, verdict in results:
                report.add(case, verdict)
    return reports
