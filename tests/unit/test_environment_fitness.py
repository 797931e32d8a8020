import copy

import pytest

from edgewise.record.caution import CAUTIONS
from edgewise.run.counters import Counters
from edgewise.run.environment import fingerprint
from edgewise.run.fitness import assess_fitness
from edgewise.run.trust import BUSY, STEAL
from messages import wording

IDEAL = {
    "cpu": {"usable_cores": 8, "quota_cores": None, "smt_active": False},
    "memory": {"total_bytes": 1000},
    "clock": {"governor": "performance", "boost": False},
    "virtualisation": {"hypervisor": False, "vendor": None, "container": "none seen"},
    "settings": {"performance_counters": True},
    "state": {
        "load_average": [0.1, 0.1, 0.1],
        "memory_available_bytes": 900,
        "swap_used_bytes": 0,
        "on_mains": True,
    },
}
QUIET = {"busy_share_of_others": 0.01, "steal_share": 0.0, "throttled_s": 0.0}


def machine(**changes):
    environment = copy.deepcopy(IDEAL)
    for path, value in changes.items():
        group, name = path.split("__")
        environment[group][name] = value
    return environment


def test_an_ideal_machine_has_nothing_against_it():
    fitness = assess_fitness(IDEAL, QUIET)
    assert (fitness.grade, fitness.reasons, fitness.advice) == ("A", (), ())


@pytest.mark.parametrize(
    ("changes", "grade", "reason"),
    [
        ({"state__load_average": [4.1, 0, 0]}, "B", "the load average of the last minute is 4.1 on 8 usable cores"),
        (
            {"virtualisation__hypervisor": True},
            "B",
            "this is a virtual machine: other machines on the host can slow it unnoticed",
        ),
        (
            {"virtualisation__emulator": "qemu-arm"},
            "D",
            "emulated processor: qemu-arm runs the programs of this device: times, energy and memory measured here are "
            "not reported",
        ),
        ({"virtualisation__hypervisor": None}, "A", "it is unknown whether this is a virtual machine"),
        ({"clock__governor": "schedutil"}, "B", "the clock governor is schedutil: the frequency follows the load"),
        (
            {"clock__governor": None},
            "B",
            "the clock governor is unknown: the frequency may change while measuring",
        ),
        ({"clock__boost": True}, "B", "turbo (boost) is on: the first seconds run faster than a sustained load"),
        ({"cpu__usable_cores": 2}, "B", "two usable cores: a measurement with two threads leaves none for the system"),
        ({"cpu__usable_cores": 1}, "C", "one usable core: every other process interrupts the measurement"),
        ({"cpu__smt_active": True}, "A", "two hardware threads share each core (SMT)"),
        (
            {"cpu__quota_cores": 1.5},
            "C",
            "a cgroup quota of 1.5 cores: processes that exceed it are paused for milliseconds",
        ),
        (
            {"state__on_mains": False},
            "C",
            "the machine runs on battery and may lower its clock to save power",
        ),
        ({"state__memory_available_bytes": 99}, "C", "only 10% of the memory is available"),
        ({"state__swap_used_bytes": 51}, "B", "swapped-out data amounts to 5% of the memory"),
        (
            {"settings__performance_counters": False},
            "A",
            "no hardware performance counters: cycles and instructions can't be counted",
        ),
    ],
)
def test_one_thing_at_a_time(changes, grade, reason):
    fitness = assess_fitness(machine(**changes), QUIET)
    assert (fitness.grade, fitness.reasons) == (grade, (reason,))
    assert len(fitness.advice) == 1
    assert fitness.advice[0]


@pytest.mark.parametrize(
    ("counters", "grade"),
    [
        ({"busy_share_of_others": 0.03}, "A"),
        ({"busy_share_of_others": 0.031}, "B"),
        ({"busy_share_of_others": 0.10}, "B"),
        ({"busy_share_of_others": 0.101}, "C"),
        ({"busy_share_of_others": 1.0}, "C"),
        ({"busy_share_of_others": None}, "B"),
        ({"steal_share": 0.001}, "B"),
        ({"steal_share": 0.01}, "B"),
        ({"steal_share": 0.021}, "C"),
        ({"throttled_s": 0.01}, "C"),
        ({"throttled_s": None, "steal_share": None}, "A"),
    ],
)
def test_what_was_seen_while_waiting(counters, grade):
    fitness = assess_fitness(IDEAL, QUIET | counters)
    assert fitness.grade == grade
    assert len(fitness.reasons) == (grade != "A")


@pytest.mark.parametrize(
    ("counters", "code", "limit"),
    [
        ({"busy_share_of_others": 1.0}, "busy-host", BUSY),
        ({"steal_share": 0.5}, "steal", STEAL),
        ({"throttled_s": 0.5}, "throttled", 0.0),
    ],
)
def test_what_was_seen_promises_no_worse_grade_than_runs_get(counters, code, limit):
    (name,) = counters
    assert assess_fitness(IDEAL, QUIET | counters).grade == CAUTIONS[code][0]
    assert assess_fitness(IDEAL, QUIET | {name: limit}).grade < CAUTIONS[code][0]


@pytest.mark.parametrize(
    "changes",
    [
        {"state__load_average": [4.0, 9.0, 9.0]},
        {"cpu__quota_cores": 8.0},
        {"state__memory_available_bytes": 100},
        {"state__swap_used_bytes": 50},
        {"cpu__usable_cores": 3},
        {"state__on_mains": None},
        {"settings__performance_counters": None},
    ],
)
def test_on_the_good_side_of_every_limit(changes):
    assert assess_fitness(machine(**changes), QUIET).reasons == ()


def test_the_worst_comes_first_and_makes_the_grade():
    environment = machine(virtualisation__hypervisor=True, virtualisation__vendor="KVM", cpu__usable_cores=1)
    fitness = assess_fitness(environment, QUIET | {"steal_share": 0.5})
    assert fitness.grade == "C"
    assert [finding.ceiling for finding in fitness.findings] == ["C", "C", "B"]
    assert fitness.reasons[0] == wording("hypervisor-gave-processor-time-other-machines", steal="50.00%")
    assert fitness.reasons[2].startswith(wording("virtual-machine-other-machines-host", name=" (KVM)"))


def test_a_machine_of_which_nothing_is_known_is_not_an_a(tmp_path):
    nothing = Counters(monotonic_ns=10**9).delta(Counters(monotonic_ns=0))
    fitness = assess_fitness(fingerprint(root=tmp_path), nothing)
    assert fitness.grade == "B"
    assert wording("load-other-processes-unknown-proc") in fitness.reasons
