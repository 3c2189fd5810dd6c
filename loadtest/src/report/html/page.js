// Points at a place of a plot: the line under the pointer, and what was measured there, beside the names.
for (const figure of document.querySelectorAll("figure")) {
  const { places, names, values } = JSON.parse(figure.querySelector("script").textContent);
  const plot = figure.querySelector(".plot"), cursor = figure.querySelector(".cursor");
  const at = figure.querySelector(".at"), shown = figure.querySelectorAll(".legend b");
  let place = null;
  const show = (index) => {
    place = index;
    cursor.hidden = index === null;
    at.textContent = index === null ? "" : names[index];
    shown.forEach((element, shape) => (element.textContent = index === null ? "" : values[shape][index]));
    if (index !== null) cursor.style.left = places[index] * 100 + "%";
  };
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect(), x = (event.clientX - box.left) / box.width;
    let nearest = 0;
    places.forEach((other, index) => {
      if (Math.abs(other - x) < Math.abs(places[nearest] - x)) nearest = index;
    });
    show(places.length ? nearest : null);
  });
  plot.addEventListener("pointerleave", () => show(null));
  plot.addEventListener("blur", () => show(null));
  plot.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !places.length) return;
    event.preventDefault();
    show(Math.min(places.length - 1, Math.max(0, (place ?? (step > 0 ? -1 : places.length)) + step)));
  });
}
