"""bf16 and stacks beside float32: the layers that are timed."""

from benchmarks import ways


def test_the_layers_are_those_of_cnn_1_with_what_they_read() -> None:
    """Two images of 28×28: 5×5 convolutions and pooling leave 12×12 and 4×4, with 32 channels 512 numbers."""
    found = {layer.name: tuple(layer.reads.shape) for layer in ways.layers(2)}
    assert found == {
        "conv1": (2, 1, 28, 28),
        "conv2": (2, 16, 12, 12),
        "fc1": (2, 512),
        "fc2": (2, 2000),
        "head": (2, 500),
    }


def test_a_layer_is_timed_in_both_precisions() -> None:
    head = ways.layers(2)[-1]
    assert min(head.pass_in("float32"), head.pass_in("bf16"), head.rounding()) > 0
