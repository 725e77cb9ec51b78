"""What the demo, the benchmarks and the MPI suites share: children, libraries, fi_pingpong."""
