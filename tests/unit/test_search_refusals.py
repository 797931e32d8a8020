"""Searches on data and models that are not as they should be: one clear error, or samples that are left out and told."""

from __future__ import annotations

import numpy as np
import pytest

import fake_passes as scripted
import warm_start
from edgewise.errors import BadInput, RunFailed
from messages import says
from search_bench import COUNT, labelled, original
from small_selections import Rows, corrupt, rows, selection
from threaded_workers import living

# --- data that is not as it should be ---


@pytest.mark.parametrize("numbers", [(0,), (3, 17, 44), tuple(range(50))])
def test_corrupt_samples_are_left_out_for_everybody(bench, numbers):
    result = bench.search(scripted.Failing, data=labelled(on_read=corrupt(*numbers)))
    assert result.data.size == COUNT
    assert result.baseline.metrics["accuracy_top1"].method.endswith(f"n = {COUNT - len(numbers)}")


def test_a_sample_of_another_shape_is_left_out(bench):
    data = [*rows(COUNT)]
    data[7] = np.zeros(9, np.float32)
    result = bench.search(scripted.Failing, data=Rows(data, labelled().labels))
    assert result.baseline.metrics["accuracy_top1"].method.endswith(f"n = {COUNT - 1}")


def test_data_of_which_nothing_can_be_used_is_refused(bench):
    with pytest.raises(BadInput):
        bench.search(scripted.Failing, data=labelled(on_read=corrupt(*range(COUNT))))


def test_strict_is_strict_in_a_search_too(bench):
    bench.install(scripted.Failing)
    strict = selection(labelled(on_read=corrupt(5)), strict=True)
    with pytest.raises(BadInput, match=r"row\[5\]"):
        bench.search(judged=strict)


def test_samples_to_calibrate_that_can_t_be_used_are_left_out(bench):
    looked = selection(Rows(rows(20), [0] * 20, split="train", on_read=corrupt(0, 5)))
    result = bench.search(scripted.Failing, calibration=looked)
    assert result.calibration.size == 18 and result.calibration.split == "train"
    assert "2 of 20 samples to calibrate net.fake could not be used" in result.notes
    with np.load(bench.folder / "out" / "calibration.npz") as kept:
        assert kept["input_0"].shape == (18, 4) and kept["labels"].tolist() == [0] * 18
    with pytest.raises(BadInput, match=says("no-sample-can-used-calibrate")):
        bench.search(calibration=selection(Rows(rows(4), on_read=corrupt(*range(4)))))


# --- originals that are not as they should be ---


@pytest.mark.parametrize("behaviour", [{"at": "load", "do": "abort"}, {"at": "first", "do": "raise"}])
def test_an_original_that_does_not_run_is_told(bench, behaviour):
    with pytest.raises(RunFailed, match=says("original-does-not-run", name="fake")):
        bench.search(scripted.Faster, model=original(bench.folder, behaviour=behaviour))


def test_an_original_that_dies_on_the_data_is_told(bench):
    dying = original(bench.folder, behaviour={"at": "invoke", "after": 30, "do": "segfault"})
    with pytest.raises(RunFailed, match="SIGSEGV"):
        bench.search(scripted.Faster, model=dying)


def test_an_original_with_outputs_that_are_no_numbers_is_told(bench):
    with pytest.raises(BadInput, match="the original is broken: output 0 is not finite"):
        bench.search(scripted.Faster, model=original(bench.folder, behaviour={"at": "outputs", "do": "nan"}))


def test_an_original_with_outputs_that_are_no_numbers_on_random_inputs_needs_real_ones(bench):
    broken = original(bench.folder, behaviour={"at": "outputs", "do": "nan"})
    with pytest.raises(BadInput, match="with random inputs the original's outputs are NaN or infinite") as caught:
        bench.search(scripted.Faster, model=broken, data=False)
    assert "--data" in caught.value.advice


def test_a_folder_that_can_t_be_written_is_told_before_anything(bench):
    (bench.folder / "file").write_text("")
    with pytest.raises(BadInput, match=says("cant-write")):
        bench.search(scripted.Faster, folder=bench.folder / "file" / "out")


def test_a_layer_that_there_is_not_can_t_be_kept(bench):
    with pytest.raises(BadInput, match=says("no-layer-called", name="mixx")) as caught:
        bench.search(scripted.Faster, keep_float=("mixx",))
    assert "mix" in caught.value.advice


def test_a_data_set_that_raises_in_the_midst_leaves_no_process(bench):
    def read(index):
        if index == 40:
            raise RuntimeError("odd")

    with pytest.raises(RuntimeError, match="odd"):
        bench.search(scripted.Faster, data=labelled(on_read=read))
    assert warm_start.children() == [] == living()
