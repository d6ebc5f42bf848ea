// Find anything, from the top bar: "/" and Ctrl-K lead to the field, which offers what it finds as one types. Without
// this script, the form leads to a page of results.
(function () {
  "use strict";
  const form = document.querySelector("form[data-find]");
  if (!form) return;
  const input = form.elements.text;
  const panel = form.querySelector(".find-panel");
  const status = form.querySelector("[aria-live]");
  const PAUSE = 120;
  let timer = 0;
  let request = null;
  // What the options were found for: Enter must not open what an earlier text has found.
  let shownFor = null;

  for (const [name, value] of Object.entries({ role: "combobox", "aria-autocomplete": "list", "aria-controls": "find-list", "aria-expanded": "false" })) {
    input.setAttribute(name, value);
  }

  const options = () => Array.from(panel.querySelectorAll("[role=option]"));
  const marked = () => panel.querySelector('[role=option][aria-selected="true"]');

  function mark(option) {
    options().forEach((one) => one.setAttribute("aria-selected", String(one === option)));
    if (option) {
      input.setAttribute("aria-activedescendant", option.id);
      option.scrollIntoView({ block: "nearest" });
    } else {
      input.removeAttribute("aria-activedescendant");
    }
  }
  function show(isOpen) {
    panel.hidden = !isOpen;
    input.setAttribute("aria-expanded", String(isOpen));
    if (!isOpen) mark(null);
  }
  function forget() {
    clearTimeout(timer);
    if (request) request.abort();
    shownFor = null;
    show(false);
    status.textContent = "";
  }

  async function load() {
    const typed = input.value;
    if (request) request.abort();
    request = new AbortController();
    const answer = await fetch(form.action, {
      method: "POST",
      headers: { "X-Requested-With": "keywright" },
      body: new URLSearchParams(new FormData(form)),
      signal: request.signal,
    });
    // Signed out: reload, which leads to the sign-in page.
    if (answer.status === 401) return location.reload();
    if (!answer.ok) return;
    const html = await answer.text();
    if (input.value !== typed || document.activeElement !== input) return;
    panel.innerHTML = html;
    shownFor = typed;
    show(true);
    mark(options()[0]);
    status.textContent = panel.querySelector("[role=listbox]").dataset.summary;
  }

  input.addEventListener("input", () => {
    clearTimeout(timer);
    if (!input.value.trim()) return forget();
    timer = setTimeout(() => load().catch(() => {}), PAUSE);
  });
  input.addEventListener("focus", () => {
    if (shownFor !== null && shownFor === input.value) {
      show(true);
      mark(options()[0]);
    }
  });
  form.addEventListener("focusout", (event) => {
    if (!form.contains(event.relatedTarget)) show(false);
  });

  input.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    const all = options();
    const isOpen = !panel.hidden;
    if ((event.key === "ArrowDown" || event.key === "ArrowUp") && isOpen && all.length) {
      event.preventDefault();
      const at = all.indexOf(marked());
      const step = event.key === "ArrowDown" ? 1 : -1;
      mark(all[at < 0 ? (step > 0 ? 0 : all.length - 1) : (at + step + all.length) % all.length]);
    } else if (event.key === "Enter" && isOpen && marked() && shownFor === input.value) {
      event.preventDefault();
      if (event.ctrlKey || event.metaKey) window.open(marked().href);
      else marked().click();
    } else if (event.key === "Escape") {
      event.preventDefault();
      if (isOpen) show(false);
      else if (input.value) {
        input.value = "";
        forget();
      } else input.blur();
    }
  });

  function isWriting(element) {
    return element.isContentEditable || element.matches("input:not([type=checkbox], [type=radio]), textarea, select");
  }
  document.addEventListener("keydown", (event) => {
    const isK = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey;
    const isSlash = event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !isWriting(event.target);
    if (!isK && !isSlash) return;
    event.preventDefault();
    input.focus();
    input.select();
  });
  // Back from a page: the options may be old.
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) forget();
  });
})();
