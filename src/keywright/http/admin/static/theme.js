// Before anything is drawn: light or dark, and that there is a program in this browser.
(function () {
  "use strict";
  var root = document.documentElement;
  var dark = matchMedia("(prefers-color-scheme: dark)");
  function wanted() {
    var found = /(?:^|; )keywright_theme=(light|dark)/.exec(document.cookie);
    return found ? found[1] : "system";
  }
  function apply() {
    var theme = wanted();
    root.setAttribute("data-bs-theme", theme === "system" ? (dark.matches ? "dark" : "light") : theme);
  }
  root.classList.add("js");
  apply();
  dark.addEventListener("change", apply);
  window.keywrightTheme = apply;
})();
