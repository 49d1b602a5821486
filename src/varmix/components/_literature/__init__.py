"""Sampling laws of other papers: one component over points, whose weights change with feedback."""
