"""The measuring: a plan becomes jobs, a job becomes fresh worker processes, their samples become a run."""
