"""What every other module of varmix builds on: validation, state, random numbers, spaces, draws and evidence."""
