"""Sampling laws of other papers: one law over points whose weights change with feedback."""
