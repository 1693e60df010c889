// @ts-nocheck: this script runs in a browser, and the project is checked against the types of Node.
const search = document.getElementById("search");
const order = document.getElementById("order");
const found = document.getElementById("found");
const list = document.getElementById("documents");

const entries = Array.from(list.children, (item, path) => ({
  item,
  path,
  title: item.querySelector("strong").textContent,
  words: Number(item.dataset.words),
  text: item.querySelector("a").textContent.toLowerCase(),
}));

const orders = {
  path: (a, b) => a.path - b.path,
  title: (a, b) => a.title.localeCompare(b.title) || a.path - b.path,
  words: (a, b) => b.words - a.words || a.path - b.path,
};

function filter() {
  const terms = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const { item, text } of entries) {
    item.hidden = !terms.every((term) => text.includes(term));
    if (!item.hidden) shown += 1;
  }
  found.textContent = terms.length === 0 ? "" : `${shown} of ${entries.length} found`;
}

function sort() {
  list.append(...entries.toSorted(orders[order.value]).map(({ item }) => item));
}

search.addEventListener("input", filter);
order.addEventListener("change", sort);
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target === search) return;
  event.preventDefault();
  search.focus();
});
// A browser that goes back keeps what was typed.
filter();
sort();
