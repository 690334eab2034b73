"""The picture of a report in the documentation: wide, on a phone in dark mode, and "Try it".

``python -m benchmarks.report_picture [file]`` needs chromium, chromedriver, selenium and pillow.
"""

from __future__ import annotations

import base64
import io
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from polymargin import MultiPrototypeSVC, write_report

__all__ = ["draw_report", "main"]

WIDE, PHONE = (900, 661), (390, 1111)
_BEFORE = 30  # pixels above a heading
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")


def draw_report(path: Path) -> None:
    """Screenshots of one report, joined into one picture."""
    from PIL import Image

    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X / 16, y, test_size=0.4, random_state=0)
    model = MultiPrototypeSVC(5, C=0.3, probabilities="temperature", random_state=0)
    model.fit(X_train, y_train)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        page = Path(folder) / "report.html"
        write_report(model, X_test, y_test, page, title="Handwritten digits")
        browser = _browser(folder)
        try:
            top = _shot(browser, page, WIDE)
            play = _shot(browser, page, (WIDE[0], 450), at="#try")
            phone = _shot(browser, page, PHONE, is_dark=True)
        finally:
            browser.quit()
    whole = Image.new("RGB", (WIDE[0] + PHONE[0], WIDE[1] + 450), "white")
    whole.paste(top, (0, 0))
    whole.paste(play, (0, WIDE[1]))
    whole.paste(phone, (WIDE[0], 0))
    whole.quantize(128).save(path, optimize=True)


def _browser(folder: str) -> Any:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("chromium-browser") or ""
    for flag in (*_FLAGS, f"--user-data-dir={folder}/profile"):
        options.add_argument(flag)
    service = webdriver.ChromeService(shutil.which("chromedriver") or "chromedriver")
    return webdriver.Chrome(options=options, service=service)


def _shot(
    browser: Any, page: Path, size: tuple[int, int], at: str = "", is_dark: bool = False
) -> Any:
    """A screenshot of the page, from an element on if one is given."""
    from PIL import Image
    from selenium.webdriver.support.wait import WebDriverWait

    width, height = size
    look = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [look]})
    browser.get(page.as_uri())
    ready = "return document.documentElement.dataset.ready"
    WebDriverWait(browser, 60).until(lambda _: browser.execute_script(ready))
    if at:
        browser.execute_script(
            "const one = document.querySelector(arguments[0]);"
            "scrollTo(0, one.getBoundingClientRect().top + scrollY - arguments[1])",
            at,
            _BEFORE,
        )
    data = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
    return Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")


def main(arguments: list[str]) -> None:
    """Write the picture."""
    draw_report(Path(arguments[0] if arguments else "docs/images/report.png"))


if __name__ == "__main__":
    main(sys.argv[1:])
