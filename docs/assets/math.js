// Sets the formulas of a page by KaTeX, which only pages with formulas load.
const here = document.currentScript.src.replace(/math\.js.*$/, "katex/");

function load(tag, attributes) {
  return new Promise((done) => {
    const element = Object.assign(document.createElement(tag), attributes, { onload: done });
    document.head.append(element);
  });
}

async function setFormulas() {
  const formulas = document.querySelectorAll(".arithmatex");
  if (formulas.length === 0) return;
  load("link", { rel: "stylesheet", href: `${here}katex.min.css` });
  await load("script", { src: `${here}katex.min.js` });
  for (const formula of formulas) {
    const text = formula.textContent.trim();
    katex.render(text.slice(2, -2), formula, { displayMode: text.startsWith("\\["), throwOnError: false });
  }
}

setFormulas();
