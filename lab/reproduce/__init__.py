"""Experiments: plan, run, record, resume and judge them."""
