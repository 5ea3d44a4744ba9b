r"""Takes the picture of a report for README, with chromium and selenium.

    python -m results.report_picture runs/heads/report.html docs/figures/report.png

The command opens the page in chromium, chooses a head and a word, and saves the view of single
heads as a PNG. The published picture is of the recipe ``multi30k_small`` after 1,000 updates::

    bash scripts/train.sh --config multi30k_small method=baseline optimization.max_update=1000
    diverse-mha analyze runs/multi30k_small/baseline/checkpoint_best.pt data/multi30k/bin \
        --measures cka,importance --output runs/heads
"""

import argparse
import base64
import shutil
from collections.abc import Sequence
from pathlib import Path

from diverse_mha.analysis.figures import fewer_colours
from diverse_mha.common.files import write_files

#: What the picture shows: values of the view's selects, and the number of the word to point at.
CHOICES = {"model": "0", "component": "cross", "layer": "4", "head": "2", "sentence": "6"}
MEASURE = "importance"
WORD = 7
WIDTH, HEIGHT, SCALE = 960, 1500, 1.5
MARGIN = 16
COLOURS = 128


def main(arguments: Sequence[str] | None = None) -> None:
    """Save the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path, help="report.html of diverse-mha analyze")
    parser.add_argument("picture", type=Path, help="file to write, PNG")
    given = parser.parse_args(arguments)
    write_files({given.picture: fewer_colours(photograph(given.report), COLOURS)})


def photograph(report: Path) -> bytes:
    """Return the view of a report as a PNG."""
    from selenium import webdriver
    from selenium.webdriver.support.select import Select

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    for word in ("--headless", "--no-sandbox", "--hide-scrollbars"):
        options.add_argument(word)
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    browser = webdriver.Chrome(options, service)
    try:
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": SCALE, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(report.resolve().as_uri())
        for name, value in {**CHOICES, "measure": MEASURE}.items():
            Select(browser.find_element("id", f"view-{name}")).select_by_value(value)
        browser.find_elements("css selector", "#view-queries button")[WORD].click()
        view, last = (browser.find_element("id", name).rect for name in ("view", "view-strong"))
        area = {
            "x": view["x"] - MARGIN,
            "y": view["y"] + 2,  # below the line above the heading
            "width": view["width"] + 2 * MARGIN,
            "height": last["y"] + last["height"] - view["y"] + MARGIN,
            "scale": 1,
        }
        command = {"clip": area, "captureBeyondViewport": True}
        return base64.b64decode(browser.execute_cdp_cmd("Page.captureScreenshot", command)["data"])
    finally:
        browser.quit()


if __name__ == "__main__":
    main()
