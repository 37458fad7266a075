"""The command palette's entries, from the one table of keys."""

from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from tui.app.keys import KEYS, Key


class Commands(Provider):
    """Every key's action by what it does."""

    async def discover(self) -> Hits:
        for key in KEYS:
            if key.action != "command_palette":
                yield DiscoveryHit(_title(key), partial(self.app.run_action, key.action), help=key.about)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for key in KEYS:
            title = _title(key)
            if key.action != "command_palette" and (score := matcher.match(f"{title} {key.about}")) > 0:
                yield Hit(
                    score, matcher.highlight(title), partial(self.app.run_action, key.action), help=key.about
                )


def _title(key: Key) -> str:
    return f"{key.label} ({key.print})"
