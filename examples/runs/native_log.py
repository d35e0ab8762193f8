"""Keeps back output of native code to standard error, past `sys.stderr`, unless it is a fault.

With TF_CPP_MIN_LOG_LEVEL=0 in the environment, nothing is kept back.
"""

import contextlib
import os
import re
import sys
import tempfile

_STDERR = 2
# Lines in the logs of TensorFlow, absl and TensorFlow Lite; and a line of every start.
_NEWS = re.compile(
    rb"[IW]\d{4} |\d{4}-\d\d-\d\d [\d:.]+: [IW] |INFO: |WARNING: All log messages be"
)
_FAULT = re.compile(rb"[EF]\d{4} |\d{4}-\d\d-\d\d [\d:.]+: [EF] |ERROR: ")
_KNOWN = re.compile(rb".*Unable to register cu\w+ factory")


@contextlib.contextmanager
def kept_back(only_faults=False):
    """Context in which nothing is written to standard error; afterwards it is, except news.

    After an exception other than Ctrl-C everything is.

    Args:
        only_faults: Whether nothing but lines of faults is written afterwards: some summaries have
            lines that do not tell what they are.
    """
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "0":
        yield
        return
    sys.stderr.flush()
    with tempfile.TemporaryFile() as file:
        stderr = os.dup(_STDERR)
        os.dup2(file.fileno(), _STDERR)
        is_shown = _is_fault if only_faults else _is_no_news
        try:
            yield
        except Exception:
            is_shown = bool  # All lines, which have an end at least.
            raise
        finally:
            sys.stderr.flush()
            os.dup2(stderr, _STDERR)
            os.close(stderr)
            file.seek(0)
            for line in filter(is_shown, file):
                os.write(_STDERR, line)


def _is_no_news(line):
    return not (_NEWS.match(line) or _KNOWN.match(line))


def _is_fault(line):
    return bool(_FAULT.match(line)) and not _KNOWN.match(line)
