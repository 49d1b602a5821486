from dataclasses import asdict, replace

import pytest
from rich.console import Console

from lab.experiments import regret
from lab.experiments.regret import DEFAULT, Problem
from lab.reproduce.records import Records
from lab.reproduce.runner import Job, WorkerError, error_file, list_versions, one_of_each_first, perform_jobs


def job(seed=0, arm=DEFAULT, **changes):
    problem = asdict(Problem(3, 10.0, "hot", "stationary", rounds=20, seed=seed))
    return Job("regret", {"part": "growth", "arm": arm, **problem, **changes}, 0.1)


@pytest.fixture
def console():
    return Console(quiet=True)


GOOD, BAD = [job(seed) for seed in range(3)], job(arm="no such learner")


@pytest.fixture(scope="module")
def performed(tmp_path_factory):
    """Make three runs, and one that raises, with two processes; return the folder and the failures."""
    out = tmp_path_factory.mktemp("out")
    return out, perform_jobs([BAD, *GOOD], out, 2, Console(quiet=True))


def test_every_run_is_recorded_with_versions_and_times(performed):
    records = Records(performed[0] / "records").read("regret", [job.config for job in GOOD])
    assert len(records) == 3
    for record in records:
        assert record.result["paid"] >= 0
        assert record.wall_seconds > 0
        assert record.cpu_seconds > 0
        assert {"varmix", "numpy", "numba"} <= set(record.versions)


def test_one_run_of_every_experiment_comes_first_and_the_rest_in_order():
    jobs = [Job(name, {"seed": seed}, 1.0) for name in ("blobs", "kdpp", "regret") for seed in range(3)]
    first, rest = one_of_each_first(jobs)[:3], one_of_each_first(jobs)[3:]
    assert first == jobs[::3]
    assert rest == [job for job in jobs if job not in first]


def test_results_do_not_depend_on_the_number_of_processes(performed):
    records = Records(performed[0] / "records").read("regret", [job.config for job in GOOD])
    assert [record.result for record in records] == [regret.run(job.config) for job in GOOD]  # one after another


def test_a_run_that_raises_is_told_with_its_traceback_and_the_others_go_on(performed):
    out, (failure,) = performed
    assert failure.job == BAD
    assert failure.message == "KeyError: 'no such learner'"
    assert failure.path == error_file(out, BAD)
    assert "Traceback" in failure.path.read_text()
    records = Records(out / "records")
    assert all(records.has("regret", job.config) for job in GOOD)
    assert not records.has("regret", BAD.config)


def test_versions_name_what_is_installed_only():
    found = list_versions()
    assert found["numpy"]
    assert all(found.values())


def test_a_broken_pool_becomes_one_clear_error(tmp_path, console, monkeypatch):
    from concurrent.futures import Future
    from concurrent.futures.process import BrokenProcessPool

    def broken(self, *arguments):
        future = Future()
        future.set_exception(BrokenProcessPool("gone"))
        return future

    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor.submit", broken)
    with pytest.raises(WorkerError, match="memory"):
        perform_jobs([job()], tmp_path, 1, console)


def test_a_pool_that_breaks_while_runs_are_handed_out_is_told_too(tmp_path, console, monkeypatch):
    from concurrent.futures.process import BrokenProcessPool

    def broken(self, *arguments):
        raise BrokenProcessPool("gone")

    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor.submit", broken)
    with pytest.raises(WorkerError, match="memory"):
        perform_jobs([job()], tmp_path, 1, console)


def test_a_result_that_json_cannot_hold_is_a_failed_run(tmp_path, monkeypatch):
    from lab.reproduce import runner

    made = replace(regret.EXPERIMENT, run=lambda config: {"paid": float("nan")})
    monkeypatch.setattr(regret, "EXPERIMENT", made)
    assert "ValueError" in runner._perform_job(job(), tmp_path)
    assert not Records(tmp_path / "records").has("regret", job().config)
