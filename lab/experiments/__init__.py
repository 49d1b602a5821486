"""One module or package per experiment, run by `varmix reproduce NAME`, and what all of them share."""
