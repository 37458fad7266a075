"""Which methods the models of a session can run."""

from tui.app.survey import survey


def test_the_survey_says_what_the_owner_of_a_session_would_say() -> None:
    from simulator.config import Config

    config = Config.read({"method": {"name": "fedlora"}, "federation": {"group": "htm5"}})
    offers = {offer.name: offer for offer in survey(config.to_json())}
    assert offers["fedgh"].obstacle is None
    assert "client 1 (cnn2) has 'conv2.weight'" in str(offers["heteroavg"].obstacle)
    assert [parameter.key for parameter in offers["fedlora"].parameters] == [
        "mu",
        "structure",
        "hidden",
        "eta_theta",
    ]
    assert offers["fedlora"].parameters[0].default == "0.9"
