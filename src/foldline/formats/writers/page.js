// Opens and closes everything, and leaves only entries that hold what is searched. The page reads without it.
(() => {
  const tools = document.querySelector(".tools");
  const entries = [...document.querySelectorAll(".entry")];
  const texts = new Map();
  const all = (open) => document.querySelectorAll("details").forEach((each) => { each.open = open; });
  const search = (words) => {
    const wanted = words.trim().toLowerCase();
    for (const entry of entries) {
      if (wanted && !texts.has(entry)) texts.set(entry, entry.textContent.toLowerCase());
      entry.hidden = wanted !== "" && !texts.get(entry).includes(wanted);
    }
  };
  const [field, open, close] = tools.children;
  let waiting = 0;
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => search(field.value), 150);
  });
  open.addEventListener("click", () => all(true));
  close.addEventListener("click", () => all(false));
  tools.hidden = false;
})();
