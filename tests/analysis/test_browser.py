"""The report in a browser: keyboard control, network requests and logged errors."""

import json
import os
import re
import shutil

import pytest

from diverse_mha.cli import run
from diverse_mha.evaluation.models import open_models

webdriver = pytest.importorskip("selenium.webdriver")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver"),
]
QUIET = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run
--disable-dev-shm-usage --disable-background-networking --disable-component-update
--disable-sync""".split()


@pytest.fixture(scope="module")
def paths(checkpoint, save):
    return [str(checkpoint), str(save("other", "transformer_disagree"))]


@pytest.fixture(scope="module")
def report(paths, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    arguments = [
        "--cpu",
        "--sentences",
        "3",
        "--measures",
        "cka,importance",
        "--output",
        str(folder),
    ]
    assert run(["analyze", *paths, str(data), *arguments]) == 0
    return folder / "report.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for word in (*QUIET, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    service = webdriver.ChromeService(DRIVER, env=os.environ | {"SE_OFFLINE": "true"})
    found = webdriver.Chrome(options, service)
    yield found
    found.quit()


@pytest.fixture
def page(browser, report):
    """Function that opens the report on a screen of a given width, in a light or dark theme."""

    def opened(width=1200, theme="light", path=report):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
        browser.get(path.as_uri())
        return browser

    return opened


def press(browser, *keys):
    for key in keys:
        webdriver.ActionChains(browser).send_keys(key).perform()


def value(browser, name):
    return browser.execute_script(f"return document.getElementById('view-{name}').value")


def attended_words(browser) -> list[tuple[str, float]]:
    """Return the attended words and their weights, as the page shows them."""
    items = browser.find_elements("css selector", "#view-keys li")
    return [
        (word, float(share or 0) / 100)
        for word, share in (re.fullmatch(r"(.*?)(?: (\d+) %)?", x.text).groups() for x in items)
    ]


def test_keyboard_selects_head_and_sentence(page, paths, data):
    browser = page()
    keys = webdriver.Keys
    browser.execute_script("document.getElementById('view-model').focus()")
    # Select the second model, cross-attention, layer 2, head 3, second sentence and fourth word.
    for downs in (1, 1, 1, 2, 1):
        press(browser, *[keys.ARROW_DOWN] * downs, keys.TAB)
    press(browser, keys.HOME, *[keys.ARROW_RIGHT] * 3)
    names = ("model", "component", "layer", "head", "sentence")
    assert [value(browser, name) for name in names] == ["1", "cross", "2", "2", "1"]

    loaded = open_models(paths[1], data, cpu=True, heads=True)
    (sample,) = (s for s in loaded.batches("valid", max_tokens=30) if 1 in s["id"])
    states = loaded.states(sample, {"cross": ("weights",)})["cross"][1]
    row = sample["id"].tolist().index(1)
    real = sample["net_input"]["src_tokens"][row].ne(loaded.task.source_dictionary.pad())
    weights = states.weights[row, 2, 3, real].tolist()
    words = [loaded.task.source_dictionary[n] for n in sample["net_input"]["src_tokens"][row][real]]
    target = loaded.task.target_dictionary[sample["target"][row][3]]
    assert browser.switch_to.active_element.text == target
    assert [word for word, _ in attended_words(browser)] == words
    assert [w for _, w in attended_words(browser)] == pytest.approx(weights, abs=0.005 + 0.002)
    announced = browser.find_element("id", "view-said").text
    strongest = words[max(range(len(words)), key=weights.__getitem__)]
    assert announced.startswith("encoder-decoder attention, layer 2, head 3: ")
    assert f"“{target}” looks most at {strongest} " in announced


def test_maps_show_numbers_above_1_with_all_digits(page, report, tmp_path):
    text = report.read_text(encoding="utf-8")
    (kept,) = re.findall(r'(?s)<script[^>]* id="view-data">(.*?)</script>', text)
    data = json.loads(kept)
    data["models"][0]["components"]["encoder"]["maps"]["cka"][0] = [10.25, 0.5, -0.5, 20.05]
    changed = tmp_path / "report.html"
    changed.write_text(text.replace(kept, json.dumps(data)), encoding="utf-8")
    cells = page(path=changed).find_elements("css selector", "#view-maps tbody button")
    assert [cell.text for cell in cells[:4]] == ["10.25", ".50", "-.50", "20.05"]


def test_columns_of_a_map_are_called_heads(page):
    tables = page().find_elements("css selector", "#view-maps table")
    heads = [table.find_element("css selector", "thead").text.split() for table in tables]
    assert heads and all(head == ["layer", "head", "1", "2", "3", "4"] for head in heads)


def test_page_makes_no_requests_and_logs_no_errors(page):
    browser = page()
    browser.find_elements("css selector", "#view-queries button")[1].click()
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if "requestWillBeSent" in e["method"]]
    own = ("file:", "data:", "chrome")  # chrome: the browser's own pages
    assert asked and all(url.startswith(own) for url in asked)
    assert browser.get_log("browser") == []
