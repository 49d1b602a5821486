"""What several test files share: examples, oracles, small data, and scenarios for many processes."""
