"""What holds for every test."""

import asyncio
import gc
import inspect
from collections.abc import Iterator

import pytest
from hypothesis import settings

# A test that waits for its share of a busy machine is not wrong.
settings.register_profile("busy", deadline=None)
settings.load_profile("busy")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Set thousands of tests and all that they import aside: each full garbage collection would look through them."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # libraries that look for leaks as the process ends would find them


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture
def generated_images() -> Iterator[None]:
    """Every data set has made-up images."""
    from tests import federations

    with federations.on_images(federations.generated()):
        yield
