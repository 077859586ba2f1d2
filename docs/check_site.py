"""Open every page of the built site in Chromium, as a reader with a telephone would.

``python docs/check_site.py [docs/_build/html]`` prints what is wrong: errors in the console, links
within the site that lead nowhere, images that do not load, pages wider than 400 pixels, a search
that does not find `QuiltClassifier`. Nothing outside of the site can be reached meanwhile.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

WIDTH = 400
SEARCHED = "QuiltClassifier"
FOUND = "api/generated/kernelquilt.quilt.QuiltClassifier.html"

# runs in every page before anything else
WATCH = """<script>
const problems = [];
addEventListener("error", event => problems.push(
  event.message || "not loaded: " + (event.target.src || event.target.href)), true);
console.error = (...words) => problems.push(words.join(" "));
addEventListener("load", async () => {
  for (const image of document.images) {
    image.loading = "eager";
    await image.decode().catch(() => problems.push("image: " + image.src));
  }
  if (document.querySelector(".math") && window.MathJax) await MathJax.startup.promise;
  const found = () => [...document.querySelectorAll("#search-results a")].map(a => a.href);
  for (let k = 0; location.search && k < 100 && !found().some(h => h.includes("FOUND")); k++)
    await new Promise(done => setTimeout(done, 100));
  if (location.search && !found().some(h => h.includes("FOUND")))
    problems.push("the search does not find it");
  const article = document.querySelector("article");
  const scrolls = node => node && node !== article &&
    (getComputedStyle(node).overflowX !== "visible" || scrolls(node.parentElement));
  const wide = [...(article ? article.querySelectorAll("*") : [])].find(
    node => node.getBoundingClientRect().right > innerWidth + 1 &&
      !node.matches(".headerlink") && !scrolls(node));
  if (wide) problems.push("too wide: " + wide.tagName + " " + wide.textContent.slice(0, 40));
  if (document.querySelector("mjx-merror")) problems.push("a formula that cannot be drawn");
  parent.postMessage(problems, "*");
});
</script>""".replace("FOUND", FOUND)

# opens the pages one after the other in some frames of the width of a telephone
FRAMES = """<body><script>
const pages = PAGES, told = {};
function next(frame) {
  const page = pages.shift();
  if (page === undefined) {
    frame.remove();
    if (!document.querySelector("iframe"))
      fetch("/told", {method: "POST", body: JSON.stringify(told)});
    return;
  }
  const late = setTimeout(() => tell(["not loaded after 60 seconds"]), 60000);
  function tell(problems) {
    clearTimeout(late);
    removeEventListener("message", listen);
    told[page] = problems;
    next(frame);
  }
  const listen = event => { if (event.source === frame.contentWindow) tell(event.data); };
  addEventListener("message", listen);
  frame.src = page;
}
for (let k = 0; k < 3; k++) {
  const frame = document.createElement("iframe");
  frame.width = WIDTH;
  frame.height = 800;
  document.body.append(frame);
  next(frame);
}
</script></body>"""


class Links(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take what a tag points to and is called."""
        for name, value in attrs:
            if value and (name in ("href", "src") and tag != "base"):
                self.targets.append(value)
            if value and name in ("id", "name"):
                self.anchors.add(value)


def links_of(page: Path) -> Links:
    """Return the links and anchors of a page."""
    links = Links()
    links.feed(page.read_text())
    return links


def pages_of(site: Path) -> list[Path]:
    """Return the pages of a site; themes have templates among their files."""
    return sorted(page for page in site.rglob("*.html") if "_static" not in page.parts)


def dead_links(site: Path) -> list[str]:
    """Return the links within the site that lead nowhere."""
    found = {page.resolve(): links_of(page) for page in pages_of(site)}
    dead = []
    for page, links in found.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc or target == "#":
                continue
            path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            anchor = unquote(parts.fragment)
            known = path not in found or not anchor or anchor in found[path].anchors
            if not path.exists() or not known:
                dead.append(f"{page.relative_to(site.resolve())}: leads nowhere: {target}")
    return dead


class Handler(SimpleHTTPRequestHandler):
    """Serves the site with the watching script in every page."""

    told: dict[str, list[str]]
    done: threading.Event
    frames: str

    def do_GET(self) -> None:
        """Answer with a file, or with the page of frames."""
        path = Path(self.translate_path(self.path))
        if self.path == "/frames.html":
            text = self.frames
        elif path.suffix == ".html" and path.exists():
            text = path.read_text().replace("<head>", f"<head>{WATCH}", 1)
        else:
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(text.encode())

    def do_POST(self) -> None:
        """Take what the pages told."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        type(self).told = json.loads(body)
        self.send_response(204)
        self.end_headers()
        self.done.set()

    def log_message(self, *args: object) -> None:
        """Print nothing."""


def problems_in_browser(site: Path, chromium: str, timeout: float = 1200) -> list[str]:
    """Return what the pages of a site told, opened one after the other."""
    pages = [f"/{page.relative_to(site)}" for page in pages_of(site)]
    pages.append(f"/search.html?q={SEARCHED}")
    frames = FRAMES.replace("PAGES", json.dumps(pages)).replace("WIDTH", str(WIDTH))
    handler = type("Watching", (Handler,), {"told": {}, "frames": frames})
    handler.done = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"]
    flags += ["--disable-background-networking", "--disable-component-update"]
    # a browser without a window ends at once unless somebody may ask it something
    flags.append("--remote-debugging-port=0")
    # nothing but the site can be reached
    flags.append("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
    with tempfile.TemporaryDirectory() as profile:
        address = f"http://127.0.0.1:{server.server_port}/frames.html"
        browser = subprocess.Popen(
            [chromium, *flags, f"--user-data-dir={profile}", address],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            done = handler.done.wait(timeout)
        finally:
            browser.terminate()
            browser.wait()
            server.shutdown()
    if not done:
        return [f"the browser did not end within {timeout:g} seconds"]
    missed = [f"{page}: not opened" for page in pages if page not in handler.told]
    return missed + [f"{page}: {each}" for page, told in handler.told.items() for each in told]


def main() -> None:
    """Print what is wrong with a site."""
    site = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "_build" / "html")
    problems = dead_links(site)
    if chromium := shutil.which("chromium"):
        problems += problems_in_browser(site, chromium)
    else:
        print("there is no chromium: only links were checked")
    print("\n".join(problems) or "every page is as it should be")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
