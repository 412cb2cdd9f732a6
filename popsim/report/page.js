// Lets each figure be saved as it stands in the page, and says which boxes scroll.
"use strict";
for (const figure of document.querySelectorAll("figure")) {
  const [picture, link] = [figure.querySelector("img"), figure.querySelector("a.picture")];
  if (!picture || !link) continue;
  link.href = picture.src;
  link.hidden = false;
}
const markBoxes = () => {
  for (const box of document.querySelectorAll(".wide"))
    box.classList.toggle("scrolls", box.scrollWidth > box.clientWidth + 1);
};
window.addEventListener("resize", markBoxes);
markBoxes();
