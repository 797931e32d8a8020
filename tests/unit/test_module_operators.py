"""Steps that are known by module and type alone: which operators they execute."""

from edgewise.model.cost import count
from edgewise.model.graph import Graph, Operator
from edgewise.profiling.attribution import attribute
from edgewise.profiling.module_operators import claim_by_module, graph_of_steps
from edgewise.runtime.base import EngineNode, ModuleOperator
from edgewise.runtime.torch_profile import _read_kernels, _split


def graph(*operators):
    """A graph of operators, each given as ``module/type``."""
    found = []
    for index, (module, _, kind) in enumerate(each.rpartition("/") for each in operators):
        attributes = {"module": module} if module else {}
        found.append(Operator(index=index, name=f"op{index}", op=f"aten.{kind}.default", attributes=attributes))
    return Graph(name="", format="torch", tensors={}, operators=tuple(found), inputs=(), outputs=())


def step(name, *executes):
    """A step that took 1 µs."""
    operators = tuple(ModuleOperator(*each) for each in executes)
    return EngineNode(name=name, op=name, times_ns=(1000.0,), executes=operators)


def claimed(network, *steps):
    claims = {}
    claim_by_module(network, steps, claims)
    return claims


def test_operators_of_one_module_are_told_apart_by_their_place():
    network = graph("a/relu", "/relu", "a/relu_")
    steps = [step("x", ("a", "relu", 1, 2)), step("y", ("", "relu", 0, 1)), step("z", ("a", "relu", 0, 2))]
    assert claimed(network, *steps) == {0: {2}, 1: {1}, 2: {0}}


def test_other_numbers_of_operators_are_never_guessed():
    network = graph("a/relu", "a/relu", "b/relu")
    steps = [step("x", ("a", "relu", 0, 1)), step("y", ("b", "relu", 0, 1))]
    # The one step of the module executes all that nothing else executes there.
    assert claimed(network, *steps) == {0: {0, 1}, 1: {2}}


def test_without_modules_types_are_counted_in_the_whole_network():
    network = graph("a/conv2d", "b/conv2d", "b/relu")
    steps = [step("x", ("", "conv2d", 0, 2)), step("y", ("", "conv2d", 1, 2)), step("z", ("", "gelu", 0, 1))]
    assert claimed(network, *steps) == {0: {0}, 1: {1}}


def test_a_call_for_a_whole_module_leaves_what_inner_calls_execute():
    network = graph("e.attention/linear", "e.attention/softmax", "e.norm/layer_norm", "f/linear")
    steps = [
        step("x", ("e", "fused", 0, 1)),
        step("y", ("e.norm", "layer_norm", 0, 1)),
        step("z", ("f", "linear", 0, 1)),
    ]
    found = attribute(network, steps, ordered=False)
    assert [(group.steps, group.operators) for group in found.groups] == [((0,), (0, 1)), ((1,), (2,)), ((2,), (3,))]
    assert found.without_step == found.unattributed == ()


def test_a_graph_of_steps_has_unknown_costs():
    steps = [step("x", ("a", "relu", 0, 1)), step("y", ("", "add", 1, 2))]
    made = graph_of_steps(steps, "eager", because="a branch on values")
    assert [operator.name for operator in made.operators] == ["a/relu", "add_1"]
    assert made.operators[0].unknown_because == "a branch on values"
    assert count(made.operators[0], made).parameters is None


def test_steps_are_the_outermost_operators_of_the_thread_of_the_inference():
    events = [
        (100, 100, "edgewise inference", 1),
        (110, 50, "edgewise module a", 1),
        (115, 20, "aten::conv2d", 1),
        (120, 10, "aten::convolution", 1),
        (120, 10, "aten::empty", 2),
        (140, 10, "my record", 1),
        (141, 5, "mine::op", 1),
        (170, 9, "graph_0_cpp_fused_relu_0", 1),
        (180, 4, "TorchDynamo Cache Lookup", 1),
        (250, 9, "aten::add", 1),
    ]
    (found,) = _split(events)
    assert found.names == ["aten::conv2d", "mine::op", "graph_0_cpp_fused_relu_0"]
    assert (found.starts, found.lengths, found.modules) == ([15, 41, 70], [20, 5, 9], ["a", "a", ""])
    assert found.guards_ns == 4


def test_kernels_around_a_product_do_not_execute_it():
    conv, linear = ModuleOperator("c", "conv2d", 0, 1), ModuleOperator("l", "linear", 0, 1)
    relu = ModuleOperator("", "relu", 0, 1)
    mapping = {
        "cppCodeToPost": {
            "extern_kernels.convolution:2": ["convolution"],
            "cpp_fused_convolution_0:1": ["convolution"],
            "extern_kernels.addmm:3": ["addmm", "view_1"],
            "cpp_fused_relu_view_1:4": ["relu", "view_2"],
        },
        "postToPre": {
            "convolution": ["conv2d"], "addmm": ["linear"], "view_1": ["linear"], "view_2": ["linear"], "relu": ["relu"]
        },
    }  # fmt: skip
    kernels = _read_kernels(mapping, {"conv2d": conv, "linear": linear, "relu": relu})
    assert [(each.name, each.executes) for each in kernels] == [
        ("cpp_fused_convolution_0", ()),
        ("extern_kernels.convolution", (conv,)),
        ("extern_kernels.addmm", (linear,)),
        ("cpp_fused_relu_view_1", (relu,)),
    ]
