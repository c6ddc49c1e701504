"""A headless Chromium by its DevTools protocol, over two pipes: no port, no library.

    with Browser(program) as browser:
        page = browser.open("/tmp/page.html", width=1280, height=800, dark=True)
        page.wait("document.title === 'x'")
        page.click(100, 200)
        page.faults()   # errors, exceptions, requests beside the file itself
"""
import base64
import json
import os
import select
import subprocess
import tempfile
import time

PATIENCE = 60  # seconds; a condition that holds ends a wait at once


class Browser:
    def __init__(self, program):
        self.folder = tempfile.TemporaryDirectory(prefix="wt-browser-", ignore_cleanup_errors=True)
        to_read, self.to = os.pipe()
        self.back, to_write = os.pipe()
        # Chromium reads commands from descriptor 3 and answers on 4.
        launch = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}'
        self.process = subprocess.Popen(
            ["bash", "-c", launch, program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
             "--disable-extensions", "--disable-sync", "--remote-debugging-pipe",
             f"--user-data-dir={self.folder.name}", "about:blank"],
            pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=open(os.path.join(self.folder.name, "stderr"), "wb"))
        os.close(to_read)
        os.close(to_write)
        self.number = 0
        self.rest = b""
        self.events = {}  # by session

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.back)
        self.folder.cleanup()

    def said(self):
        """The end of what the browser has printed, for a failure's message."""
        with open(os.path.join(self.folder.name, "stderr"), errors="replace") as file:
            return file.read()[-2000:]

    def receive(self, until):
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.back], [], [], max(0, until - time.monotonic()))
            if not ready:
                return None
            part = os.read(self.back, 1 << 16)
            if not part:
                raise RuntimeError("the browser has ended: " + self.said())
            self.rest += part
        line, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(line)
        if "method" in message:
            self.events.setdefault(message.get("sessionId"), []).append(message)
        return message

    def call(self, method, session=None, **params):
        self.number += 1
        command = {"id": self.number, "method": method, "params": params}
        if session:
            command["sessionId"] = session
        os.write(self.to, json.dumps(command).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            message = self.receive(until)
            if message is None:
                raise TimeoutError(f"{method}: no answer in {PATIENCE} s: {self.said()}")
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]

    def open(self, path, width=1280, height=800, dark=False):
        return Page(self, path, width, height, dark)


class Page:
    def __init__(self, browser, path, width, height, dark):
        self.browser = browser
        self.url = "file://" + os.path.abspath(path)
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for area in ("Page", "Runtime", "Network", "Log"):
            self.call(area + ".enable")
        self.resize(width, height)
        self.scheme(dark)
        self.call("Page.navigate", url=self.url)
        self.wait("document.readyState === 'complete' && location.protocol === 'file:'")

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def scheme(self, dark):
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def get(self, expression):
        """The value of an expression of JavaScript."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, expression):
        """Until an expression holds."""
        until = time.monotonic() + PATIENCE
        while True:
            if self.get(f"!!({expression})"):
                return
            if time.monotonic() > until:
                raise AssertionError(f"{self.url}: never: {expression}; {self.faults()}")
            self.browser.receive(time.monotonic() + 0.02)

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def move(self, x, y):
        self.mouse("mouseMoved", x, y)

    def click(self, x, y):
        self.move(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def place(self, selector):
        """The middle of an element, which is scrolled into view."""
        return self.get(f"(()=>{{const e=document.querySelector({json.dumps(selector)});"
                        "e.scrollIntoView({block:'nearest'});const r=e.getBoundingClientRect();"
                        "return [r.left+r.width/2,r.top+r.height/2]})()")

    def key(self, key, code=0, text=None):
        down = {"key": key, "windowsVirtualKeyCode": code}
        if text:
            down["text"] = text
        self.call("Input.dispatchKeyEvent", type="keyDown", **down)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def type(self, selector, text):
        """Puts a text into a field, in place of what it has; "" empties it."""
        self.get(f"(e=>{{e.focus();e.select()}})(document.querySelector({json.dumps(selector)}))")
        if text:
            self.call("Input.insertText", text=text)
        else:
            self.key("Backspace", 8)

    def screenshot(self, path, whole=False):
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=whole, **(
            {"clip": dict(self.get("({width:document.documentElement.clientWidth,"
                                   "height:document.documentElement.scrollHeight})"), x=0, y=0, scale=1)}
            if whole else {}))
        with open(path, "wb") as file:
            file.write(base64.b64decode(picture["data"]))

    def faults(self):
        """What no page of ours does: errors, warnings and exceptions, and requests beside its own file."""
        self.get("1")  # what has happened until now is told before the answer
        bad = []
        for event in self.browser.events.get(self.session, []):
            method, params = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                bad.append("exception: " + details.get("exception", {}).get("description", details["text"]))
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                bad.append("console: " + str([a.get("value", a.get("description")) for a in params["args"]]))
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                bad.append("log: " + params["entry"]["text"])
            elif method == "Network.requestWillBeSent" and params["request"]["url"].split("#")[0] != self.url:
                bad.append("request: " + params["request"]["url"])
        return bad
