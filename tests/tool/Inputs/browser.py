"""A report in headless Chromium: every view without an error of a script, by the keyboard and by search; nothing is loaded from elsewhere.

    browser.py CHROMIUM PAGE.html [FOLDER]      prints a line for each thing that holds; FOLDER: screenshots of five views go there

Talks to the browser's debugger through a pipe (--remote-debugging-pipe): messages of JSON that end with a zero byte.
"""

import base64
import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time

WAIT = 30  # seconds that a page may take


class Browser:
    def __init__(self, program, profile):
        to_child, self.to = os.pipe()
        self.out, from_child = os.pipe()
        self.number, self.rest, self.events = 0, b"", []

        def pipes():  # the browser reads from 3 and writes to 4
            a, b = os.dup(to_child), os.dup(from_child)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.child = subprocess.Popen([program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                                       "--hide-scrollbars", f"--user-data-dir={profile}", "--window-size=1400,1000", "--remote-debugging-pipe"],
                                      preexec_fn=pipes, pass_fds=(3, 4, to_child, from_child), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(from_child)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Network", "Log":
            self.call(f"{domain}.enable")
        self.call("Page.bringToFront")
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)

    def read(self):
        while b"\0" not in self.rest:
            if not select.select([self.out], [], [], WAIT)[0]:
                sys.exit("the browser does not answer")
            more = os.read(self.out, 1 << 20)
            if not more:
                sys.exit("the browser has ended")
            self.rest += more
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            sys.exit(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def until(self, expression):
        end = time.monotonic() + WAIT
        while not self.value(f"!!({expression})"):
            if time.monotonic() > end:
                sys.exit(f"never: {expression}\n{self.value('document.body.innerText.slice(0, 500)')}\n{self.troubles()}")
            time.sleep(0.05)

    def key(self, key):
        text = key if len(key) == 1 else "\r" if key == "Enter" else ""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def troubles(self):
        found = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"])
            elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(params["entry"]["text"])
            elif method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file:", "data:", "blob:", "about:")):
                found.append(params["request"]["url"])
        return found

    def shot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def close(self):
        os.close(self.to)
        self.child.terminate()
        self.child.wait()


def main(program, page, folder=None):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        b = Browser(program, profile)
        b.call("Page.navigate", url=pathlib.Path(page).resolve().as_uri())
        b.until("document.body && document.body.dataset.ready === 'yes'")
        print("views:", b.value("Object.keys(views).join(' ')"))
        kernels = b.value("D.kernels.length")
        for number, view in enumerate(b.value("Object.keys(views)"), 1):
            b.value("document.activeElement.blur()")
            b.key(str(number))
            b.until(f"location.hash === '#{view}' && document.querySelector('#tabs .on').textContent.startsWith('{view}') && document.querySelector('main h2')")
            if folder and view in ("overview", "graph", "fusion", "memory"):
                b.shot(f"{folder}/report-{view}.png")
        b.key("3")
        b.until("document.querySelectorAll('tr.link').length === D.kernels.length")
        name = b.value("D.kernels[0].kernel")
        b.key("/")
        for letter in name:
            b.key(letter)
        b.until(f"document.querySelectorAll('tr.link').length < {kernels} || {kernels} === 1" if kernels > 2 else f"filter === '{name}'")
        b.key("Enter")
        b.key("Enter")
        b.until("location.hash.startsWith('#kernel/')")
        for title in "Why it is not larger", "What fused into it", "Schedules that were considered", "At each pass":
            b.until(f"[...document.querySelectorAll('h2')].some(h => h.textContent.startsWith('{title}'))")
        for word in "nodes", "bound by", "how far from the limit", "what would help":
            b.until(f"[...document.querySelectorAll('dt')].some(h => h.textContent === '{word}')")
        print("a kernel by the keyboard")
        last = b.value("document.querySelector('[data-history].on').textContent")
        b.key("[")
        b.until(f"document.querySelector('[data-history].on').textContent !== {json.dumps(last)}")
        b.key("]")
        b.until("document.querySelectorAll('pre .add').length > 0")
        print("differences between passes")
        if folder:
            b.shot(f"{folder}/report-kernel.png")
        background = b.value("getComputedStyle(document.body).backgroundColor")
        b.key("d")
        b.until(f"getComputedStyle(document.body).backgroundColor !== '{background}'")
        print("light and dark")
        every = b.value("(() => { let n = 0; for (const k of Object.keys(D.histories)) { const html = kernel(k).replace(/<pre>[^]*?<\\/pre>/g, ''); if (html.includes('undefined') || html.includes('NaN')) throw k; n++; } return n; })()")
        print(f"pages of {every} kernels")
        troubles = b.troubles()
        b.close()
    if troubles:
        sys.exit(f"troubles: {troubles}")
    print("no error of a script, nothing from elsewhere")


main(*sys.argv[1:])
