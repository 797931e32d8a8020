"""Limits on the processors and the memory of processes on this machine, and what the kernel counts about them.

    with open_group(cpus=0.5, memory_bytes=2**28) as group:
        group.admit(pid)
        …
        group.usage().throttled_s

The mechanism is the best that works here: cgroup v2, cgroup v1, otherwise processor affinity with rlimits. Leaving the
``with`` block kills everything in the group and removes it. Standard library only.
"""
