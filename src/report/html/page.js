'use strict';
const all = (what, within) => [...(within || document).querySelectorAll(what)];
// One cell of a heat map takes the focus; arrow keys move it, and its words are shown below.
for (const table of all('table.heat')) {
  const rows = all('tbody tr', table).map(row => all('td', row));
  if (!rows.length || !rows[0].length) continue;
  const status = table.closest('.map').querySelector('.status');
  const heads = all('thead th', table);
  table.setAttribute('role', 'grid');
  const say = cell => {
    const row = cell.parentElement.querySelector('th').textContent;
    const column = heads[cell.cellIndex - 1].textContent;
    status.textContent = `${row}, ${column}: ${cell.title || cell.textContent}`;
  };
  let now = rows[0][0];
  now.tabIndex = 0;
  const go = cell => {
    if (!cell) return;
    now.tabIndex = -1;
    now = cell;
    now.tabIndex = 0;
    now.focus();
  };
  table.addEventListener('keydown', event => {
    const shown = rows.filter(row => !row[0].parentElement.hidden);
    const at = shown.findIndex(row => row.includes(now));
    if (at < 0) return;
    const x = shown[at].indexOf(now);
    const to = {
      ArrowRight: [at, x + 1], ArrowLeft: [at, x - 1], ArrowDown: [at + 1, x], ArrowUp: [at - 1, x],
      Home: [at, 0], End: [at, shown[at].length - 1],
    }[event.key];
    if (!to) return;
    event.preventDefault();
    go((shown[to[0]] || [])[to[1]]);
  });
  table.addEventListener('focusin', event => { if (event.target.tagName === 'TD') say(event.target); });
  table.addEventListener('click', event => { const cell = event.target.closest('td'); if (cell) go(cell); });
  table.addEventListener('mouseover', event => { const cell = event.target.closest('td'); if (cell) say(cell); });
}
const tools = document.querySelector('.tools');
if (tools) {
  tools.hidden = false;
  const button = tools.querySelector('button');
  button.addEventListener('click', () => {
    const open = button.getAttribute('aria-pressed') !== 'true';
    all('details').forEach(it => { it.open = open; });
    button.setAttribute('aria-pressed', open);
  });
  const search = tools.querySelector('input');
  if (search) search.addEventListener('input', () => {
    const wanted = search.value.trim().toLowerCase();
    all('[data-name]').forEach(it => { it.hidden = !it.dataset.name.toLowerCase().includes(wanted); });
    const left = all('article[data-name]').filter(it => !it.hidden).length;
    tools.querySelector('output').textContent = wanted ? `${left} shown` : '';
  });
}
// What is printed is everything.
let opened = [];
addEventListener('beforeprint', () => { opened = all('details:not([open])'); opened.forEach(it => { it.open = true; }); });
addEventListener('afterprint', () => { opened.forEach(it => { it.open = false; }); opened = []; });
