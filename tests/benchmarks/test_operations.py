"""What torch's operations are counted as, by their shapes."""

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.operations import kind_of, operations

IMAGES, MAPS = [64, 1, 28, 28], [64, 16, 24, 24]


def test_a_convolution_is_counted_for_every_place_that_it_is_laid_on() -> None:
    first = operations("aten::mkldnn_convolution", [IMAGES, [16, 1, 5, 5], [16]], image_channels=1)
    assert first == 2 * 64 * (24 * 24) * (16 * 25)


def test_its_gradients_are_two_and_one_where_it_reads_the_images() -> None:
    reads_images = operations("aten::convolution_backward", [MAPS, IMAGES, [16, 1, 5, 5]], image_channels=1)
    assert reads_images == 2 * 64 * (24 * 24) * (16 * 25)
    reads_maps = [[64, 32, 8, 8], [64, 16, 12, 12], [32, 16, 5, 5]]
    assert operations("aten::convolution_backward", reads_maps, 1) == 2 * 2 * 64 * (8 * 8) * (32 * 16 * 25)


def test_a_training_step_is_counted_as_torch_counts_it() -> None:
    stream = torch.Generator().manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 5), nn.ReLU(), nn.Conv2d(4, 6, 3), nn.Flatten(), nn.Linear(6 * 6 * 6, 10)
    )
    images = torch.rand(8, 1, 12, 12, generator=stream)
    with FlopCounterMode(display=False) as expected:
        net(images).sum().backward()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as found:
        net(images).sum().backward()
    events = found.key_averages(group_by_input_shape=True)
    counted = sum(each.count * operations(str(each.key), each.input_shapes or [], 1) for each in events)
    assert counted == expected.get_total_flops()


def test_kinds_are_told_apart_by_the_channels_that_are_read() -> None:
    assert kind_of("aten::mkldnn_convolution", [IMAGES, [16, 1, 5, 5]]) == "convolution of 1 channel, forward"
    assert kind_of("aten::convolution_backward", [MAPS, MAPS, [32, 16, 5, 5]]).startswith(
        "convolution of 16 channels"
    )
