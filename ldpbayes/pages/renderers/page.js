for (const button of document.querySelectorAll("table.sortable button")) button.onclick = () => {
  const head = button.closest("th"), body = button.closest("table").tBodies[0], up = head.ariaSort !== "ascending";
  for (const other of head.parentElement.children) other.ariaSort = null;
  head.ariaSort = up ? "ascending" : "descending";
  const number = text => Number.parseFloat(text.replaceAll(",", "").replace("−", "-"));
  const order = (a, b) => Number.isNaN(number(a)) || Number.isNaN(number(b)) ? a.localeCompare(b) : number(a) - number(b);
  const of = row => row.cells[head.cellIndex].textContent;
  body.append(...[...body.rows].sort((a, b) => (up ? 1 : -1) * order(of(a), of(b))));
};
