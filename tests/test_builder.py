"""What is refused before round 1."""

import pytest

from simulator.base.errors import ConfigError
from tests import federations


def test_batchnorm_with_batches_of_one_is_refused_with_what_to_set() -> None:
    with pytest.raises(
        ConfigError, match=r"client 1 \(tiny_mlp\) would train on a batch of one sample.*batch_size"
    ):
        federations.built(federations.config(training={"batch_size": 1}))


@pytest.mark.parametrize(
    ("method", "option"),
    [
        ("fml", "meme"),
        ("fedapen", "meme"),
        ("fedkd", "meme"),
        ("fedmrl", "small"),
        ("pfedmoe", "small"),
        ("pfedafm", "small"),
    ],
)
def test_the_batchnorm_of_a_model_trained_beside_is_refused_batches_of_one_too(
    method: str, option: str
) -> None:
    """tiny_cnn has no BatchNorm, tiny_mlp has."""
    with pytest.raises(
        ConfigError, match=r"client 0 \(tiny_cnn\) .* BatchNorm of tiny_mlp, which it trains beside"
    ):
        federations.built(
            federations.config(
                training={"batch_size": 1},
                federation={"group": "tiny_cnn"},
                method={"name": method, option: "tiny_mlp"},
            )
        )


def test_a_client_with_one_image_and_batchnorm_is_refused_with_what_to_change() -> None:
    """Ten images of four clients, half of each for test: one or two are left to train on."""
    with pytest.raises(ConfigError, match=r"would train on a batch of one sample.*Use fewer clients"):
        federations.built(
            federations.config(
                data={"limit": 8, "partition": "iid", "quantity": "equal", "split": "1:1"},
                federation={"group": "tiny_mlp"},
            ),
            federations.generated(classes=1),
        )


def test_a_stem_that_no_model_has_is_refused_with_what_has_one() -> None:
    with pytest.raises(
        ConfigError, match=r"models\.stem = 'imagenet' changes nothing here: tiny_cnn, tiny_mlp"
    ):
        federations.built(federations.config(models={"stem": "imagenet"}))


def test_models_without_batchnorm_train_on_one_image_at_a_time() -> None:
    parts = federations.built(
        federations.config(training={"batch_size": 1}, federation={"group": "tiny_cnn"}, data={"limit": 40})
    )
    assert federations.run(parts.engine, 1).record["diverged"] == []


def test_batchnorm_that_sees_more_than_one_value_per_channel_may_train_on_one_image() -> None:
    """A convolution's output has a value for every pixel."""
    parts = federations.built(
        federations.config(
            training={"batch_size": 1}, federation={"group": "tiny_resnet6"}, data={"limit": 40}
        )
    )
    assert federations.run(parts.engine, 1).record["diverged"] == []
