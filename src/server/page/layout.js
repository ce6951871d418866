// The parts beside the conversation: drawers on a narrow page, columns on a wide one.

const NARROW = matchMedia("(max-width: 899px)");

/** Opens `sessions` or `panel` over a narrow page, or closes what is open. */
function setDrawer(name) {
  const { dataset } = document.body;
  const old = dataset.drawer;
  if (!name && !old) return;
  if (name) dataset.drawer = name;
  else delete dataset.drawer;
  show(ui.scrim, name);
  for (const node of document.querySelectorAll("header, main")) node.inert = Boolean(name);
  (name === "panel" ? ui.closePanel : name ? ui.closeSessions : old === "panel" ? ui.openPanel : ui.openSessions).focus();
}

function setPanel(isOpen) {
  if (NARROW.matches) return setDrawer(isOpen ? "panel" : null);
  document.body.toggleAttribute("data-panel", isOpen);
  ui.openPanel.setAttribute("aria-expanded", String(isOpen));
}
