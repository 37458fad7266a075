"""The parts of the benchmarks that compute without a clock."""
