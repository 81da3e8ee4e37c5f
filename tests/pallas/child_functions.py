"""Functions that tests run in child processes."""

import os
import time

from kgen.toolchain.child import Retire


def act(item: tuple[str, int]) -> int:
    """Does what `item` says to its own process."""
    verb, value = item
    if verb == "sleep":
        time.sleep(value)
    elif verb == "abort":
        print("about to abort")
        os.abort()
    elif verb == "exit":
        os._exit(value)
    elif verb == "raise":
        raise ValueError(f"bad {value}")
    elif verb == "allocate":
        bytearray(value)
    elif verb == "retire":
        raise Retire(os.getpid())
    return os.getpid() if verb == "pid" else value
