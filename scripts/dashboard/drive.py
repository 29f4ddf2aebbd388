#!/usr/bin/env python3
"""Drives the dashboard of the agent in Chromium and checks what it does.

    drive.py URL OUT [--token TOKEN]

URL is that of a running agent (or of examples/agent_api.rs), OUT a directory for the
screenshots. Talks to Chromium through a pipe, so that nothing but Python and Chromium
is needed. Ends with 1 and says why when a check fails.
"""

import argparse
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

WIDTHS = [400, 800, 1400]
PATIENCE = 20.0

# The contrast of every text with the nearest ground that is painted behind it.
CONTRAST = """
(() => {
  const channels = (text) => {
    let m = text.match(/^rgba?\\((\\d+), (\\d+), (\\d+)(?:, ([\\d.]+))?\\)$/);
    if (m) return [+m[1], +m[2], +m[3], m[4] === undefined ? 1 : +m[4]];
    m = text.match(/^color\\(srgb ([\\d.]+) ([\\d.]+) ([\\d.]+)(?: \\/ ([\\d.]+))?\\)$/);
    if (m) return [m[1] * 255, m[2] * 255, m[3] * 255, m[4] === undefined ? 1 : +m[4]];
    return [0, 0, 0, 0];
  };
  const light = ([r, g, b]) => {
    const part = (it) => (it /= 255) <= 0.03928 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim();
    const element = walker.currentNode.parentElement;
    if (!text || !element.checkVisibility() || ["SCRIPT", "NOSCRIPT"].includes(element.tagName)) continue;
    let ground = element;
    while (ground && channels(getComputedStyle(ground).backgroundColor)[3] < 1) ground = ground.parentElement;
    const behind = light(channels(getComputedStyle(ground || document.body).backgroundColor));
    const before = light(channels(getComputedStyle(element).color));
    const ratio = (Math.max(behind, before) + 0.05) / (Math.min(behind, before) + 0.05);
    if (ratio < 4.5) low.push(`${text.slice(0, 30)}: ${ratio.toFixed(1)}`);
  }
  return [...new Set(low)];
})()
"""


class Failed(Exception):
    pass


class Browser:
    """One page of a Chromium without a window."""

    def __init__(self, program, profile):
        out_read, self.to = os.pipe()
        self.back, in_write = os.pipe()
        # Chromium reads from descriptor 3 and writes to 4.
        shell = f'exec "$@" 3<&{out_read} 4>&{in_write}'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, "chromium", program, "--headless=new", "--no-sandbox",
             "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
             "--disable-background-networking", "--remote-debugging-pipe",
             f"--user-data-dir={profile}", "about:blank"],
            pass_fds=[out_read, in_write], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(out_read)
        os.close(in_write)
        os.set_blocking(self.back, False)
        self.rest, self.number, self.session = b"", 0, None
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"]:
            self.call(f"{domain}.enable")

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def receive(self, until):
        """Messages that are there; waits for the first."""
        while time.monotonic() < until:
            try:
                part = os.read(self.back, 1 << 20)
                if not part:
                    raise Failed("Chromium ended")
                self.rest += part
            except BlockingIOError:
                time.sleep(0.005)
            if b"\0" in self.rest:
                *whole, self.rest = self.rest.split(b"\0")
                return [json.loads(it) for it in whole]
        return []

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        answer = None
        while answer is None:
            got = self.receive(until)
            if not got:
                raise Failed(f"no answer to {method}")
            for it in got:
                if it.get("id") == self.number:
                    answer = it
                elif "method" in it:
                    self.events.append(it)
        if "error" in answer:
            raise Failed(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def js(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise Failed(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def until(self, what, expression):
        end = time.monotonic() + PATIENCE
        while not self.js(expression):
            if time.monotonic() > end:
                raise Failed(f"not within {PATIENCE} s: {what}")
            time.sleep(0.05)

    def key(self, key, code):
        text = {"Enter": "\r"}.get(key)
        for kind in ["keyDown", "keyUp"]:
            more = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **more)

    def look(self, width, scheme):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def shot(self, path):
        got = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(got["data"]))

    def complaints(self, allowed=()):
        """What the page wrote to its console, what was blocked, who else was asked."""
        found = []
        for event in self.events:
            method, it = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                found.append(f"exception: {it['exceptionDetails']}")
            elif method == "Runtime.consoleAPICalled" and it["type"] in ("error", "warning", "assert"):
                found.append(f"console: {it['args']}")
            elif method == "Log.entryAdded" and it["entry"]["level"] in ("error", "warning"):
                found.append(f"log: {it['entry']['text']}")
        return [it for it in found if not any(word in it for word in allowed)]

    def asked(self):
        events = (it for it in self.events if it["method"] == "Network.requestWillBeSent")
        return [it["params"]["request"]["url"] for it in events]


def check(holds, what):
    if not holds:
        raise Failed(what)
    print(f"ok: {what}")


def load(page, url):
    page.call("Page.navigate", url=url)
    page.until("the node is shown", "document.getElementById('status')?.className === 'good'")
    page.until("rows are shown", "document.querySelectorAll('#workload-rows .open').length > 0")


def tab_to(page, selector):
    """Goes there with the tabulator key alone."""
    for _ in range(60):
        page.key("Tab", 9)
        if page.js(f"document.activeElement.matches({json.dumps(selector)})"):
            return
    raise Failed(f"the tabulator key does not reach {selector}")


def keyboard(page):
    tab_to(page, ".skip")
    check(page.js("document.activeElement.getBoundingClientRect().left >= 0"), "the skip link is seen when it has the focus")
    tab_to(page, ".open")
    name = page.js("document.activeElement.textContent")
    check(page.js("getComputedStyle(document.activeElement).outlineStyle") == "solid", "the focus is seen")
    page.key("Enter", 13)
    page.until("the trends are drawn", "document.querySelectorAll('.detail:not([hidden]) .trend path').length > 0")
    check(page.js("document.activeElement.getAttribute('aria-expanded')") == "true", f"Enter opens {name}")
    check(page.js("(() => { const id = document.activeElement.getAttribute('aria-controls'); return !document.getElementById(id).hidden })()"),
          "what the button controls is what opened")
    before = page.js("document.getElementById('status').textContent + node.refresh")
    page.until("a refresh arrives", f"document.getElementById('status').textContent + node.refresh !== {json.dumps(before)}")
    check(page.js("document.activeElement.textContent") == name, "the focus stays over a refresh")
    check(page.js("document.querySelectorAll('.detail:not([hidden])').length") == 1, "what is open stays open")


def structure(page):
    tree = page.call("Accessibility.getFullAXTree")["nodes"]
    roles = {}
    for it in tree:
        role = it.get("role", {}).get("value")
        roles.setdefault(role, []).append(it.get("name", {}).get("value", ""))
    for role in ["banner", "main", "contentinfo", "status"]:
        check(len(roles.get(role, [])) == 1, f"one landmark or region: {role}")
    check(len(roles.get("region", [])) >= 6 and all(roles["region"]), "every region has a name")
    check(len(roles.get("columnheader", [])) >= 15, "columns have headers")
    check(len(roles.get("rowheader", [])) >= 5, "rows have headers")
    check(all(roles.get("button", [""])), "every button has a name")
    pictures = roles.get("image", []) + roles.get("img", []) + roles.get("graphics-document", [])
    check(pictures and all(pictures), "every plot says in words what it shows")
    check(page.js("document.querySelectorAll('#events[aria-live=polite] li').length > 0"), "events are in a live region")
    check(page.js("document.documentElement.lang") == "en", "the language is declared")


def looks(page, url, out):
    grounds = {}
    for scheme in ["light", "dark"]:
        for width in WIDTHS:
            page.look(width, scheme)
            load(page, url)
            page.js("(() => { const all = [...document.querySelectorAll('#workload-rows .open')]; (all.find((it) => it.textContent === 'redis.service') || all[0]).click() })()")
            page.until("the trends are drawn", "document.querySelectorAll('.detail:not([hidden]) .trend path').length > 0")
            wide = page.js("document.scrollingElement.scrollWidth")
            check(wide <= width, f"{width} {scheme}: nothing is wider than the page ({wide})")
            over = page.js("[...document.querySelectorAll('.panes > div')].some((it) => it.scrollWidth > it.clientWidth + 1)")
            check(not over, f"{width} {scheme}: no part of an open workload covers another")
            low = page.js(CONTRAST)
            check(not low, f"{width} {scheme}: every text has a contrast of 4.5 ({low})")
            page.shot(out / f"{width}-{scheme}.png")
            grounds[scheme] = page.js("getComputedStyle(document.body).backgroundColor")
    check(grounds["light"] != grounds["dark"], f"dark is dark ({grounds})")


def markup(page):
    names = page.js("[...document.querySelectorAll('#workload-rows .open')].map((it) => it.textContent)")
    if any("<" in name for name in names):
        check(page.js("document.querySelectorAll('main img, main script').length") == 0, "a name with markup stays text")


def with_token(page, url, token):
    page.call("Page.navigate", url=url)
    page.until("a token is asked for", "document.getElementById('token-form') && !document.getElementById('token-form').hidden")
    page.js("document.getElementById('token').focus()")
    page.call("Input.insertText", text=token)
    page.key("Enter", 13)
    page.until("the node is shown", "document.getElementById('status').className === 'good'")
    check(page.js("document.getElementById('token-form').hidden"), "with the token the node is shown")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("url")
    arguments.add_argument("out", type=pathlib.Path)
    arguments.add_argument("--token")
    given = arguments.parse_args()
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not program:
        sys.exit("no Chromium here")
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        page = Browser(program, profile)
        try:
            if given.token:
                with_token(page, given.url, given.token)
                allowed = ["401"]
            else:
                looks(page, given.url, given.out)
                page.look(1400, "light")
                load(page, given.url)
                keyboard(page)
                structure(page)
                markup(page)
                allowed = []
            found = page.complaints(allowed)
            check(not found, f"no errors, no violations of the policy ({found})")
            foreign = [it for it in page.asked() if not it.startswith(given.url)]
            check(not foreign, f"nobody else is asked ({foreign})")
        except Failed as error:
            page.shot(given.out / "failed.png")
            sys.exit(f"failed: {error}; so far: {page.complaints()}")
        finally:
            page.close()


if __name__ == "__main__":
    main()
