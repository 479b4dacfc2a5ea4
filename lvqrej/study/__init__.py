"""What the paper's experiments are made of: data, protocol, deviations, runs, tables."""
