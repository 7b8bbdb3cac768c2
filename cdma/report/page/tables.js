// Tables that sort by a column's exact values, and buttons that save the JSON in the page.
"use strict";
(() => {
  const valueOf = (row, column) => JSON.parse(row.cells[column].dataset.value);

  // Nulls stay last in either direction; numbers before texts.
  const compare = (a, b, sign) => {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    return sign * String(a).localeCompare(String(b), "en", { numeric: true });
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    const headings = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    headings.forEach((heading, column) => {
      if (heading.classList.contains("number")) {
        const rows = [...body.rows, ...(table.tFoot ? table.tFoot.rows : [])];
        for (const row of rows) row.cells[column].classList.add("number");
      }
      heading.querySelector("button").addEventListener("click", () => {
        const falling = heading.getAttribute("aria-sort") === "ascending";
        for (const other of headings) other.removeAttribute("aria-sort");
        heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
        const sign = falling ? -1 : 1;
        const sorted = [...body.rows].sort((a, b) =>
          compare(valueOf(a, column), valueOf(b, column), sign));
        body.append(...sorted);
      });
    });
  }

  for (const button of document.querySelectorAll("button.save")) {
    button.addEventListener("click", () => {
      const text = document.getElementById(button.dataset.source).textContent;
      const file = new Blob([text], { type: "application/json" });
      const link = document.createElement("a");
      link.href = URL.createObjectURL(file);
      link.download = `${button.dataset.name.split("/").pop().replace(/\.json$/, "")}.json`;
      link.click();
      URL.revokeObjectURL(link.href);
    });
  }
})();
