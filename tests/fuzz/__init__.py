"""Fuzzing of saved states: what comes from a file is refused, or works.

* `mutations`: how a nested state is damaged, field by field; the number of a case says which way.
* `targets`, `loaders`, `files`: everything in varmix that loads a state, each with a check of what comes after.
* `cases`: one case, from the damaged state to its verdict.
* `worker`: the process that cases run in, with limits of memory and time.
* `runner`: starts workers, names the case that killed one, and counts.
* `plants`: targets with known defects, to see that they are found.

`make fuzz N=20000 SEED=0` runs cases of all targets, `make fuzz CASE='groups/17'` one of them again.
"""
