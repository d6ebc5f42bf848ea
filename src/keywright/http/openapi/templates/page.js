// Copies an example, and shows all examples in the language that was chosen last.
const key = "language";

function choose(language) {
  for (const input of document.querySelectorAll(`.tabs input[value="${language}"]`)) input.checked = true;
}

for (const button of document.querySelectorAll(".copy")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.nextElementSibling.textContent);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
}

document.addEventListener("change", (event) => {
  if (!event.target.matches(".tabs input")) return;
  const before = event.target.getBoundingClientRect().top;
  choose(event.target.value);
  scrollBy(0, event.target.getBoundingClientRect().top - before);
  try { localStorage.setItem(key, event.target.value); } catch {}
});

try { choose(localStorage.getItem(key) ?? "curl"); } catch {}
