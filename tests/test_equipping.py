"""What is said of each client to give it a device."""

from simulator.base.system_section import SystemConfig
from simulator.clock.availability import availability
from simulator.engine.timing import facts
from tests import federations


def test_a_client_has_the_weights_the_samples_and_the_memory_of_its_model() -> None:
    """64·12 + 12, BatchNorm 2·12, 12·8 + 8, and 8·4 + 4 are 944 weights, with four float32 each."""
    federation = federations.federation(["tiny_mlp"] * 2, [3, 5], num_classes=4, shape=federations.DIGIT)
    found = facts(federation, availability(SystemConfig(devices=["phone"]), 2, 0))
    assert [(each.id, each.architecture, each.train_size) for each in found] == [
        (0, "tiny_mlp", 3),
        (1, "tiny_mlp", 5),
    ]
    assert {(each.parameters, each.memory) for each in found} == {(944, 944 * 16)}
