"""The process that cases run in: with a limit of memory, kernels that check bounds, and warnings that are errors.

    python -m fuzz.worker LOG SEED PATIENCE KIND/TARGET/FIRST/LAST ...   (or KIND/*/0/COUNT)

A case is written to the log before it runs and after it, so that whoever reads it knows which one killed the process.
"""

import faulthandler
import json
import os
import sys
import warnings
from pathlib import Path

from fuzz.catalogue import Job, expanded, targets

ROOM = 1 << 30  # bytes of addresses beside those in use when everything is imported and compiled
COMPILING = 1200.0  # seconds that the first case of a target may take


class Log:
    """What happens, line by line, written at once."""

    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, *event):
        os.write(self._file, (json.dumps(event) + "\n").encode())


def main():
    path, seed, patience, *texts = sys.argv[1:]
    log = Log(path)
    jobs = [job for text in texts for job in expanded(Job.parse(text))]
    found = [targets(job.kind)[job.target] for job in jobs]  # packages that are imported by this may warn
    log.write("jobs", *map(str, jobs))
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    faulthandler.enable()
    warnings.simplefilter("error")
    for job, target in zip(jobs, found, strict=True):
        run_job(job, target, int(seed), float(patience), log)
    log.write("end")


def run_job(job, target, seed, patience, log):
    """Run the cases of a job: first one without damage, which compiles what is needed."""
    from fuzz.cases import CaseError, Verdict, frozen, run_case, run_foreign, run_undamaged, told
    from fuzz.mutations import stream

    def report(number, verdict):
        log.write("verdict", job.kind, job.target, number, *verdict)

    log.write("case", job.kind, job.target, "undamaged", "none")
    faulthandler.dump_traceback_later(COMPILING, exit=True)
    limit_memory(None)
    try:
        run_undamaged(target)
    except CaseError as failure:
        report("undamaged", Verdict(failure.outcome, "none", failure.detail))
        return
    except Exception as error:
        report("undamaged", Verdict("it cannot be built", "none", told(error)))
        return
    limit_memory(ROOM)
    if job.first == 0:
        for number, verdict in enumerate(run_foreign(target)):
            report(f"foreign {number}", verdict)
    cases, undamaged = target.cases(seed), frozen(target.saved())
    for number in range(job.first, job.last):
        state, mutation = cases.case(number)
        log.write("case", job.kind, job.target, number, mutation)
        faulthandler.dump_traceback_later(patience, exit=True)
        report(number, run_case(target, state, mutation, stream(seed, job.target, number)))
    faulthandler.cancel_dump_traceback_later()
    if frozen(target.saved()) != undamaged:
        raise RuntimeError("A case has damaged the state that all others are made of.")


def limit_memory(room):
    """Allow so many bytes beside those in use: what needs more for a state of a few kilobytes is wrong."""
    import resource  # not on Windows, where the tests are skipped

    limit = resource.RLIM_INFINITY
    if room is not None:
        limit = room + int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


if __name__ == "__main__":
    main()
