"""ctrl+z: the shell gets the terminal back, and `fg` continues the app."""

from typing import Any

from tui.app import terminal

RUNS = "{name} runs in this process, so suspending the app would stop it. Press q to leave the app and keep training."
CANNOT = "The app cannot be suspended in this terminal. Press q to leave it."


def suspend(app: Any, running: str) -> None:
    """Suspend the app, or say why not. running: the session that this process runs; "" for none."""
    if running:
        app.say(RUNS.format(name=running), holds=lambda: app.runs.running)
    elif app._driver is None or not app._driver.can_suspend:
        app.say(CANNOT)
    else:
        app.app_resume_signal.subscribe(app.screen_stack[0], _continue)
        app.action_suspend_process()


def _continue(app: Any) -> None:
    """Leave the mouse to the terminal, if it was left to it: Textual takes it when the app continues."""
    terminal.give_mouse(app._driver, app.has_mouse)
