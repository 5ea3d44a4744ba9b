"use strict";
// The view of single heads. Its data, made by diverse_mha/analysis/view.py, are in #view-data.
(() => {
  const at = (name) => document.getElementById(`view-${name}`);
  const data = JSON.parse(at("data").textContent);
  let query = 2; // index of the shown query; a decoder's first query attends only to itself
  let weights; // attention weights of the chosen component and sentence

  function make(tag, parent, text, attributes = {}) {
    const element = parent.appendChild(document.createElement(tag));
    element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  }

  // The colour grows with the square root of the share, so that small weights are visible. It is
  // mixed in up to 65 %, so that the text stays readable.
  const shade = (element, share) =>
    element.style.setProperty("--share", `${Math.round(65 * Math.sqrt(Math.max(share, 0)))}%`);

  function offer(name, entries) { // fills a select; keeps the selected value if it is still offered
    const select = at(name), kept = select.value;
    if (select.dataset.entries === JSON.stringify(entries)) return;
    select.dataset.entries = JSON.stringify(entries);
    select.replaceChildren();
    for (const [value, label] of entries) make("option", select, label, { value });
    if (entries.some(([value]) => value === kept)) select.value = kept;
  }

  function shorten(words) {
    const text = words.join(" ");
    return text.length > 40 ? `${text.slice(0, 39)}…` : text;
  }

  function refresh() {
    const model = data.models[at("model").value];
    offer("component", Object.entries(model.components).map(([key, one]) => [key, one.title]));
    const component = at("component").value, { layers, heads } = model.components[component];
    offer("layer", layers.map((number) => [number, number]));
    offer("head", Array.from({ length: heads }, (_, head) => [String(head), head + 1]));
    offer("sentence", model.sentences.map((one, place) => {
      const words = Object.values(one.components)[0].keys;
      return [String(place), `${one.number}: ${shorten(words)}`];
    }));
    const sentence = model.sentences[at("sentence").value].components[component];
    weights = Uint8Array.from(atob(sentence.weights), (byte) => byte.charCodeAt(0));
    at("queries").replaceChildren();
    at("keys").replaceChildren();
    for (const [place, word] of sentence.queries.entries()) {
      const button = make("button", at("queries"), word, { type: "button" });
      for (const event of ["focus", "mouseenter", "click"])
        button.addEventListener(event, () => look(place));
    }
    for (const word of sentence.keys) make("small", make("li", at("keys"), `${word} `), "");
    look(Math.min(query, sentence.queries.length - 1));
    if (at("measure")) drawMaps(model, component);
  }

  function look(place) {
    query = place;
    const buttons = [...at("queries").children], keys = [...at("keys").children];
    for (const [other, button] of buttons.entries()) {
      button.tabIndex = other === place ? 0 : -1; // one stop for the Tab key; arrow keys move between words
      button.setAttribute("aria-pressed", other === place);
    }
    const layer = at("layer").selectedIndex, head = at("head").selectedIndex;
    const row = (layer * at("head").length + head) * buttons.length + place;
    const found = keys.map((key, other) => {
      const weight = weights[row * keys.length + other] / 255;
      shade(key, weight);
      key.lastChild.textContent = weight < 0.005 ? "" : `${Math.round(100 * weight)} %`;
      return [weight, key.textContent];
    });
    found.sort((one, two) => two[0] - one[0]);
    const most = found.filter(([weight], n) => n < 3 && weight >= 0.005).map(([, said]) => said);
    const name = at("component").selectedOptions[0].textContent;
    const seen = most.length ? `most at ${most.join(", ")}` : "at none of these words";
    at("said").textContent = `${name}, layer ${at("layer").value}, head ${head + 1}: ` +
      `“${buttons[place].textContent}” looks ${seen}.`;
  }

  function drawMaps(model, chosen) {
    const measure = at("measure").value, [title, strong] = data.measures[measure];
    at("strong").textContent =
      `Stronger colour: ${strong}. The colour grows with the square root of the value.`;
    at("maps").replaceChildren();
    const maps = Object.entries(model.components).map(([key, one]) => [key, one, one.maps[measure]]);
    const most = Math.max(...maps.flatMap(([, , rows]) => rows.flat()), 1e-9);
    const digits = most < 0.1 ? 3 : 2;
    for (const [key, one, rows] of maps) {
      const table = make("table", at("maps"), "");
      make("caption", table, one.title);
      const head = make("thead", table, ""), names = make("tr", head, ""), numbers = make("tr", head, "");
      make("th", names, "layer", { scope: "col", rowspan: 2 });
      make("th", names, "head", { scope: "colgroup", colspan: one.heads });
      for (let number = 1; number <= one.heads; number++) make("th", numbers, number, { scope: "col" });
      const body = make("tbody", table, "");
      for (const [layer, values] of rows.entries()) {
        const line = make("tr", body, "");
        make("th", line, one.layers[layer], { scope: "row" });
        for (const [head, value] of values.entries()) {
          const text = value === null ? "-" : value.toFixed(digits);
          const cell = make("button", make("td", line, ""), text.replace(/^(-?)0\./, "$1."), {
            type: "button",
            "aria-label": `${one.title}, layer ${one.layers[layer]}, head ${head + 1}: ${title} ${text}`,
          });
          shade(cell, value / most);
          const here = key === chosen && layer === at("layer").selectedIndex;
          if (here && head === at("head").selectedIndex) cell.setAttribute("aria-current", "true");
          cell.addEventListener("click", () => {
            at("component").value = key;
            refresh(); // fills the selects with the layers and heads of this component
            [at("layer").selectedIndex, at("head").selectedIndex] = [layer, head];
            refresh();
            at("queries").children[query].focus(); // also scrolls the page to the words
          });
        }
      }
    }
  }

  at("queries").addEventListener("keydown", (event) => {
    const last = at("queries").children.length - 1;
    const to = { ArrowRight: query + 1, ArrowLeft: query - 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    at("queries").children[Math.min(Math.max(to, 0), last)].focus();
  });
  offer("model", data.models.map((model, place) => [String(place), model.name]));
  if (at("measure")) offer("measure", Object.entries(data.measures).map(([key, [title]]) => [key, title]));
  for (const select of document.querySelectorAll("#view select"))
    select.addEventListener("change", refresh);
  at("body").hidden = false;
  refresh();
})();
