"""Which methods the models of a session can run."""

from htfl_sim.catalog import method_choices


def test_the_choices_say_what_the_owner_of_a_session_would_say() -> None:
    from simulator.config import Config

    config = Config.read({"method": {"name": "fedlora"}, "federation": {"group": "htm5"}})
    choices = {choice.name: choice for choice in method_choices(config.to_json())}
    assert choices["fedgh"].obstacle is None
    assert "client 1 (cnn2) has 'conv2.weight'" in str(choices["heteroavg"].obstacle)
    assert [parameter.key for parameter in choices["fedlora"].parameters] == [
        "mu",
        "structure",
        "hidden",
        "eta_theta",
    ]
    assert choices["fedlora"].parameters[0].default == "0.9"
