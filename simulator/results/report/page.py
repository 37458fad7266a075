"""The contents of a report as one HTML file."""

from importlib import resources

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from simulator.results.report.contents import Contents
from simulator.results.report.pictures import inline


def page(contents: Contents) -> str:
    """The page; it links to nothing and runs no script."""
    here = resources.files("simulator.results.report")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string((here / "page.html.jinja").read_text(encoding="utf-8"))
    drawn = [
        (Markup(inline(picture.figure, number)), picture)
        for number, picture in enumerate(contents.pictures, 1)
    ]
    style = Markup((here / "style.css").read_text(encoding="utf-8"))
    return template.render(it=contents, figures=drawn, style=style)
