"""A real browser without a window, told what to do through a pipe, by the DevTools protocol."""

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--remote-debugging-pipe"),
)
# The browser reads commands from file 3, and answers on file 4.
_LAUNCHER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
_PATIENCE = 120  # seconds until a browser that does not answer is an error
_KEYS = {"Tab": (9, ""), "Enter": (13, "\r")}


def find():
    """Returns the path of a browser, None if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextlib.contextmanager
def started():
    """Gives a `Browser` with a profile of its own, which is gone afterwards."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        commands, to_browser = os.pipe()
        from_browser, answers = os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCHER, str(commands), str(answers), find(), *FLAGS]
            + [f"--user-data-dir={profile}"],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        browser = Browser(to_browser, from_browser)
        try:
            yield browser
        finally:
            with contextlib.suppress(OSError, EOFError):
                browser.ask("Browser.close")
            os.close(to_browser)
            os.close(from_browser)
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Browser:
    """A browser that answers through a pipe."""

    def __init__(self, to_browser, from_browser):
        self._to, self._from = to_browser, from_browser
        self._asked, self._unread, self.events = 0, b"", []

    def ask(self, method, session=None, **params):
        """Returns the answer of the browser, a dict."""
        self._asked += 1
        message = {"id": self._asked, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._asked:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, method):
        """Reads until something has happened."""
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._read())

    def _read(self):
        while b"\0" not in self._unread:
            if not select.select([self._from], [], [], _PATIENCE)[0]:
                raise TimeoutError("the browser does not answer")
            read = os.read(self._from, 1 << 16)
            if not read:
                raise EOFError("the browser has ended")
            self._unread += read
        message, self._unread = self._unread.split(b"\0", 1)
        return json.loads(message)


class Tab:
    """A page that is open in a browser."""

    def __init__(self, browser, path, width=1280, scheme="light"):
        self._browser = browser
        target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Log", "Runtime", "Page"):
            self._ask(f"{domain}.enable")
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            **{"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500},
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._ask("Emulation.setEmulatedMedia", features=features)
        browser.events.clear()
        self._ask("Page.navigate", url=path.as_uri())
        browser.wait_for("Page.loadEventFired")

    def console(self):
        """Returns what the browser has told the developer since the page was opened."""
        kinds = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
        self.run("0")  # Earlier events arrive before its answer.
        return [event["params"] for event in self._browser.events if event["method"] in kinds]

    def run(self, script):
        """Returns the value of an expression of JavaScript."""
        result = self._ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def press(self, key):
        code, text = _KEYS[key]
        event = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self._ask("Input.dispatchKeyEvent", type="keyDown", text=text, **event)
        self._ask("Input.dispatchKeyEvent", type="keyUp", **event)

    def _ask(self, method, **params):
        return self._browser.ask(method, self._session, **params)
