"""Pages that have places for what a benchmark writes."""

import re


def placed(page: str, name: str, tables: str) -> str:
    """The page with `tables` between the comments <!-- name --> and <!-- /name -->. Raises ValueError without them."""
    found = re.compile(f"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if not found.search(page):
        raise ValueError(f"the page has no place for '{name}': <!-- {name} --> … <!-- /{name} -->")
    return found.sub(lambda match: f"{match[1]}\n{tables}\n{match[2]}", page)
