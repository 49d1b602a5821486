"""Running experiments: plan, run, record, resume, judge."""
