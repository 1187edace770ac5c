"""Runs a muster command that ends with the demo, even when the demo is killed and can't end it.

    python -P -m muster.clients.demo.leash serve

Its stdin is a pipe whose other end the demo alone holds and never writes to. The kernel closes that
end however the demo ends, and then this process gets the SIGTERM that the demo would have sent.

Rejected: PR_SET_PDEATHSIG, which fires when the thread that forked is over. Trio forks in worker
threads, which come and go while the demo lives.
"""

import os
import runpy
import signal
import threading


def main() -> None:
    """Watch stdin beside the command, which finds its arguments as if it had been called so."""
    threading.Thread(target=_watch, name="leash", daemon=True).start()
    runpy.run_module("muster", run_name="__main__", alter_sys=True)


def _watch() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
