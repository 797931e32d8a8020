"""Comparisons of runs: fairness, interleaved measurement, contrasts, verdicts, ranking and gates."""
