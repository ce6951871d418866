// The colors of the page: the colors of the system, or the chosen colors.

function switchTheme() {
  const { dataset } = document.documentElement;
  const isDark = dataset.theme ? dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  localStorage.setItem("agentcore.theme", (dataset.theme = isDark ? "light" : "dark"));
}

const theme = localStorage.getItem("agentcore.theme");
if (theme) document.documentElement.dataset.theme = theme;
