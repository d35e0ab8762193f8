"""Runs something once for all processes that pytest distributes its tests to."""

import fcntl


def folder(tmp_path_factory, name, fill):
    """Returns a folder that `fill`, called with it, has filled in one of the processes.

    Raises:
        AssertionError: If it could not be filled in another process, which says why.
    """
    shared = tmp_path_factory.getbasetemp()
    if shared.name.startswith("popen-"):  # A worker's, in the one of all.
        shared = shared.parent
    path = shared / name
    with open(str(shared / f"{name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            path.mkdir()
            fill(path)
            (path / "done").touch()
    assert (path / "done").exists(), f"{name} could not be run; see the first test that failed"
    return path
