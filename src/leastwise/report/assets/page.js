(() => {
  "use strict";
  const root = document.documentElement;
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];

  // Theme: the reader's system decides until the button is pressed.
  const theme = document.getElementById("theme");
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
  const label = () => {
    theme.textContent = isDark() ? "Light" : "Dark";
    theme.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
  };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    label();
  });
  prefersDark.addEventListener("change", label);
  label();

  // Charts and texts to copy travel compressed.
  const unpack = async (id) => {
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  };
  const payload = typeof DecompressionStream === "undefined" ? null : unpack("payload").then(JSON.parse);

  const draw = async () => {
    const places = all("[data-spec]");
    if (!payload) {
      for (const place of places) place.textContent = "Charts need a browser of 2023 or later. The numbers are in the tables.";
      return;
    }
    const code = document.createElement("script");
    code.textContent = await unpack("drawing");
    document.head.append(code);
    const { config, datasets, specs } = await payload;
    for (const place of places) {
      const options = { mode: "vega-lite", renderer: "svg", actions: false, config };
      await window.vegaEmbed(place, { ...specs[Number(place.dataset.spec)], datasets }, options);
    }
    root.dataset.drawn = "yes";
  };
  draw();

  // Tables: sort by a column, find a class, show both ends of a long list or all of it.
  const text = (row, column) => row.cells[column].textContent.trim();
  const compare = (column, sign) => (a, b) => {
    const [x, y] = [text(a, column), text(b, column)];
    const [p, q] = [parseFloat(x), parseFloat(y)];
    const numbers = /^[\d.]/.test(x) && /^[\d.]/.test(y) && column > 0;
    return sign * (numbers && p !== q ? p - q : x.localeCompare(y, "en", { numeric: true }));
  };

  for (const table of all("table.classes")) {
    const tools = document.querySelector(`[data-table="${table.id}"]`);
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const find = tools.querySelector(".find");
    const more = tools.querySelector(".all");
    const end = Number(table.dataset.end);
    const gap = document.createElement("tr");
    gap.className = "gap";
    const note = gap.insertCell();
    note.colSpan = table.tHead.rows[0].cells.length;

    const show = () => {
      const wanted = find.value.trim().toLowerCase();
      const short = more && more.getAttribute("aria-expanded") === "false" && !wanted;
      rows.forEach((row, i) => {
        const inside = !wanted || text(row, 0).toLowerCase().includes(wanted);
        row.hidden = !inside || (short && i >= end && i < rows.length - end);
      });
      gap.remove();
      if (short) {
        note.textContent = `… ${(rows.length - 2 * end).toLocaleString("en")} more …`;
        rows[rows.length - end].before(gap);
      }
    };

    all("thead th", table).forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        for (const other of all("thead th", table)) other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
        gap.remove();
        rows.sort(compare(column, sign));
        body.append(...rows);
        show();
      });
    });
    find.addEventListener("input", show);
    if (more) {
      const closed = more.textContent;
      more.addEventListener("click", () => {
        const open = more.getAttribute("aria-expanded") === "false";
        more.setAttribute("aria-expanded", String(open));
        more.textContent = open ? `Show ${end} at each end` : closed;
        show();
      });
    }
    show();
  }

  // Copying: the clipboard where the browser allows it, otherwise a field with the text selected.
  const copy = async (button, content) => {
    const said = button.closest(".tools").querySelector(".said");
    const old = button.closest(".tools").nextElementSibling;
    if (old && old.matches("textarea.copied")) old.remove();
    try {
      await navigator.clipboard.writeText(content);
      said.textContent = `${button.textContent.replace("Copy ", "")} copied`;
    } catch {
      const field = document.createElement("textarea");
      field.className = "copied";
      field.readOnly = true;
      field.value = content;
      field.setAttribute("aria-label", "Text to copy");
      button.closest(".tools").after(field);
      field.focus();
      field.select();
      said.textContent = "Press Ctrl+C to copy the text below";
    }
  };
  for (const button of all("[data-copy]")) {
    button.disabled = !payload;
    button.addEventListener("click", async () => {
      copy(button, (await payload).exports[Number(button.dataset.model)][button.dataset.copy]);
    });
  }
  for (const button of all("[data-from]")) {
    button.addEventListener("click", () => copy(button, document.getElementById(button.dataset.from).textContent));
  }
})();
