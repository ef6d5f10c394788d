"use strict";
// Makes the columns of a table sort it: numbers as numbers, words as words.
(() => {
  const valueOf = (row, column) => {
    const text = row.cells[column].textContent.trim();
    const number = Number(text.replaceAll(",", ""));
    return { text, number: text === "" || Number.isNaN(number) ? null : number };
  };
  const compare = (one, other) => {
    if (one.number !== null && other.number !== null) return one.number - other.number;
    if (one.number === null && other.number === null) return one.text.localeCompare(other.text);
    return one.number === null ? -1 : 1;
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const one of heads) one.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows].map((row) => [valueOf(row, column), row]);
        rows.sort(([one], [other]) => (down ? -1 : 1) * compare(one, other));
        table.tBodies[0].append(...rows.map(([, row]) => row));
      });
    });
  }
})();
