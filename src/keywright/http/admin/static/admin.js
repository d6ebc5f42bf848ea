// Conveniences of the pages; everything but copying works without them. Templates ask for them by data- attributes, see
// templates/parts.html.
(function () {
  "use strict";
  const all = (selector, within) => Array.from((within || document).querySelectorAll(selector));
  const FRESH = { "X-Requested-With": "keywright" };

  // --- times in the reader's time zone ---
  const DATE = { year: "numeric", month: "short", day: "numeric" };
  const PAGE = document.documentElement;
  const DAY = new Intl.DateTimeFormat(PAGE.lang, DATE);
  const CLOCK = new Intl.DateTimeFormat(PAGE.lang, { hour: "2-digit", minute: "2-digit" });
  const TIME = new Intl.DateTimeFormat(PAGE.lang, { ...DATE, hour: "2-digit", minute: "2-digit" });
  function showTimes(within) {
    all("time[datetime*=T]", within).forEach((one) => {
      const at = new Date(one.dateTime);
      if (isNaN(at) || at.getUTCFullYear() >= 9999) return;
      const clock = one.querySelector(".clock");
      if (clock) clock.textContent = `, ${CLOCK.format(at)}`;
      if (one.dataset.only === "ago") one.title = TIME.format(at);
      else one.textContent = (one.dataset.only === "day" ? DAY : TIME).format(at);
    });
  }

  // The server counts days in this time zone.
  function tellZone() {
    const zone = `keywright_zone=${Intl.DateTimeFormat().resolvedOptions().timeZone || ""}`;
    const secure = location.protocol === "https:" ? "; Secure" : "";
    if (!document.cookie.split("; ").includes(zone)) document.cookie = `${zone}; Path=/admin; Max-Age=31536000; SameSite=Lax${secure}`;
  }

  // --- copying ---
  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // Without TLS, browsers have no navigator.clipboard.
      const field = document.createElement("textarea");
      field.value = text;
      field.className = "visually-hidden";
      document.body.append(field);
      field.select();
      const done = document.execCommand("copy");
      field.remove();
      return done;
    }
  }
  function announce(text) {
    let live = document.getElementById("live");
    if (!live) {
      live = document.createElement("div");
      live.id = "live";
      live.className = "visually-hidden";
      live.setAttribute("role", "status");
      document.body.append(live);
    }
    live.textContent = text;
  }
  function showBriefly(button, text) {
    const label = button.querySelector("[data-caption]") || button;
    if (label.dataset.before === undefined) label.dataset.before = label.textContent;
    label.textContent = text;
    announce(text);
    setTimeout(() => (label.textContent = label.dataset.before), 2000);
  }
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const target = document.querySelector(button.dataset.copy);
    showBriefly(button, (await copy(target.value ?? target.textContent.trim())) ? PAGE.dataset.copied : PAGE.dataset.notCopied);
  });

  // --- requests in the background ---
  function reloadIfSignedOut(answer) {
    // Signed out: reload, which leads to the sign-in page.
    if (answer.status === 401) location.reload();
  }
  function fields(form) {
    return new URLSearchParams(new FormData(form));
  }

  // Send a form; show the answer, a text, in an element and copy it.
  async function reveal(form) {
    const button = form.querySelector("button");
    const answer = await fetch(form.action, { method: "POST", headers: FRESH, body: fields(form) });
    reloadIfSignedOut(answer);
    const text = await answer.text();
    if (!answer.ok) return showBriefly(button, text);
    document.querySelector(form.dataset.reveal).textContent = text;
    showBriefly(button, (await copy(text)) ? PAGE.dataset.copied : PAGE.dataset.shown);
  }

  // Send a form after each change, and show the answer, a piece of HTML.
  function followPreview(form) {
    const out = document.querySelector(form.dataset.preview);
    let timer = 0;
    let latest = 0;
    async function load() {
      const mine = ++latest;
      const answer = await fetch(form.dataset.previewUrl, { method: "POST", headers: FRESH, body: fields(form) });
      reloadIfSignedOut(answer);
      const text = await answer.text();
      if (mine !== latest) return;
      if (answer.ok) out.innerHTML = text;
      else out.textContent = text;
      showTimes(out);
    }
    form.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => load().catch(() => {}), 500);
    });
    load().catch(() => {});
  }

  // Fetch a piece of the page every few seconds, until it contains data-done.
  function keepFresh(piece) {
    const every = 1000 * Number(piece.dataset.every || 2);
    async function load() {
      if (!document.hidden) {
        try {
          const answer = await fetch(piece.dataset.refresh, { headers: FRESH });
          reloadIfSignedOut(answer);
          if (answer.ok) {
            piece.innerHTML = await answer.text();
            showTimes(piece);
            if (piece.querySelector("[data-done]")) return location.reload();
          }
        } catch {
          // The server may be back next time.
        }
      }
      setTimeout(load, every);
    }
    setTimeout(load, every);
  }

  // --- selecting rows ---
  function boxes(name) {
    return all("input[type=checkbox]").filter((one) => one.name === name);
  }
  function showSelection() {
    all("[data-selection]").forEach((bar) => {
      const of = boxes(bar.dataset.selection);
      const ticked = of.filter((one) => one.checked).length;
      if (ticked < of.length) meanMatching(bar, false);
      const matching = bar.querySelector("[data-select-matching]");
      const isAll = Boolean(bar.querySelector("input[name=scope]"));
      all("[data-selected]", bar).forEach((one) => (one.textContent = isAll ? matching.dataset.number : ticked));
      all(`[data-select-all="${bar.dataset.selection}"]`).forEach((one) => {
        one.checked = ticked > 0 && ticked === of.length;
        one.indeterminate = ticked > 0 && ticked < of.length;
      });
    });
  }
  // Whether the bar is about all licenses that match, on other pages, too.
  function meanMatching(bar, isMeant) {
    const button = bar.querySelector("[data-select-matching]");
    const field = bar.querySelector("input[name=scope]");
    if (!button || isMeant === Boolean(field)) return;
    if (isMeant) {
      const scope = document.createElement("input");
      Object.assign(scope, { type: "hidden", name: "scope", value: "all" });
      bar.append(scope);
    } else field.remove();
    all("[data-not-for-all]", bar).forEach((one) => (one.hidden = isMeant));
    [button.dataset.back, button.textContent] = [button.textContent, button.dataset.back];
  }
  function tickAll(name, isTicked) {
    boxes(name).forEach((one) => (one.checked = isTicked));
    showSelection();
  }
  let isShifted = false;
  let lastTicked = null;
  document.addEventListener("click", (event) => {
    // A label passes its click on to its checkbox, without the key.
    if (event.target.closest(".tick")) isShifted = event.shiftKey || (isShifted && event.detail === 0);
    const bar = event.target.closest("[data-selection]");
    if (!bar) return;
    if (event.target.closest("[data-select-none]")) tickAll(bar.dataset.selection, false);
    if (!event.target.closest("[data-select-matching]")) return;
    event.preventDefault();
    const isMeant = !bar.querySelector("input[name=scope]");
    if (isMeant) tickAll(bar.dataset.selection, true);
    meanMatching(bar, isMeant);
    showSelection();
  });
  // With Shift, everything between the last box and this one is ticked like this one.
  function tickRange(box) {
    const of = boxes(box.name);
    const [from, to] = [of.indexOf(lastTicked), of.indexOf(box)].sort((one, other) => one - other);
    if (isShifted && from >= 0) of.slice(from, to + 1).forEach((one) => (one.checked = box.checked));
    lastTicked = box;
  }
  document.addEventListener("change", (event) => {
    const box = event.target;
    if (box.dataset.selectAll) tickAll(box.dataset.selectAll, box.checked);
    else if (box.type === "checkbox" && box.closest(".tick")) tickRange(box);
    if (box.type === "checkbox") showSelection();
  });

  // --- a click on a row opens what it is about ---
  document.addEventListener("click", (event) => {
    const row = event.target.closest(".table tbody tr");
    if (!row || event.target.closest("a, button, input, label, select, textarea, summary, details")) return;
    if (event.defaultPrevented || String(getSelection())) return;
    const link = row.querySelector("td.main a[href]");
    if (link) link.click();
  });

  // --- shortcuts: letters typed one after the other, as the list of them says ---
  const shortcuts = document.getElementById("shortcuts");
  let typed = "";
  let forget = 0;
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, select, textarea, [contenteditable], dialog");
    if (!shortcuts || isTyping || event.ctrlKey || event.metaKey || event.altKey || event.key.length > 1) return;
    clearTimeout(forget);
    forget = setTimeout(() => (typed = ""), 1000);
    typed = (typed + event.key).slice(-2);
    const found = all("kbd[data-go]", shortcuts).find((one) => typed.endsWith(one.textContent.replace(" ", "")));
    if (event.key === "?") shortcuts.showModal();
    else if (found) location.assign(found.dataset.go);
    else return;
    event.preventDefault();
  });

  // --- forms that lead to another page when a choice is made ---
  all("form[data-go]").forEach((form) => form.addEventListener("change", () => form.requestSubmit()));

  // --- light and dark ---
  function chooseTheme(button) {
    const secure = location.protocol === "https:" ? "; Secure" : "";
    document.cookie = `keywright_theme=${button.value}; Path=/admin; Max-Age=31536000; SameSite=Lax${secure}`;
    document.querySelector("meta[name=color-scheme]").content = button.value === "system" ? "light dark" : button.value;
    all(".theme button").forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
  }

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (event.submitter && event.submitter.closest(".theme")) {
      event.preventDefault();
      chooseTheme(event.submitter);
    } else if (form.dataset.reveal) {
      event.preventDefault();
      reveal(form).catch(() => form.submit());
    } else if (form.method === "post" && form.dataset.download === undefined) {
      // A second click does nothing. The back button enables the form again, see pageshow.
      if (form.dataset.sent) event.preventDefault();
      form.dataset.sent = "yes";
    }
  });
  window.addEventListener("pageshow", () => {
    all("form[data-sent]").forEach((one) => delete one.dataset.sent);
    showSelection();
  });

  tellZone();
  showTimes();
  showSelection();
  all("form[data-preview]").forEach(followPreview);
  all("[data-refresh]").forEach(keepFresh);
})();
